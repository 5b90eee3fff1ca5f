"""Two tiles without a DMA warp: all threads load the next one while they use the present one."""

import numpy as np

from wsemu import cuda

TILE = 64


@cuda.jit
def two_tiles(a, x, y):
    tile = cuda.shared.array((2, TILE), np.float32)
    thread, tiles = cuda.threadIdx.x, x.size // TILE
    total = np.float32(0)
    tile[0, thread] = x[thread]
    for i in range(tiles):
        cuda.syncthreads()  # tile i is there, and tile i - 1 was used
        if i + 1 < tiles:
            tile[(i + 1) % 2, thread] = x[(i + 1) * TILE + thread]
        for j in range(TILE):
            total += a[thread, i * TILE + j] * tile[i % 2, j]
    y[thread] = total


a = np.ones((64, 512), np.float32, order="F")  # column by column
x, y = np.arange(512, dtype=np.float32), np.zeros(64, np.float32)
two_tiles[1, TILE](a, x, y)
