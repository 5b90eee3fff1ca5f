"""Two tiles, and each is filled again as soon as a thread is through with it: too soon."""

import numpy as np

from wsemu import cuda

TILE = 64


@cuda.jit
def two_ahead(a, x, y):
    tile = cuda.shared.array((2, TILE), np.float32)
    thread, tiles = cuda.threadIdx.x, x.size // TILE
    total = np.float32(0)
    tile[0, thread] = x[thread]
    tile[1, thread] = x[TILE + thread]
    for i in range(tiles):
        cuda.syncthreads()  # tile i is there
        for j in range(TILE):
            total += a[thread, i * TILE + j] * tile[i % 2, j]
        if i + 2 < tiles:
            tile[i % 2, thread] = x[(i + 2) * TILE + thread]
    y[thread] = total


a = np.ones((64, 512), np.float32, order="F")  # column by column
x, y = np.arange(512, dtype=np.float32), np.zeros(64, np.float32)
two_ahead[1, TILE](a, x, y)
