"""Two tiles, two pairs of barriers, no arrival without a sync."""

import numpy as np

from wsemu import cuda, ptx

TILE = 64
THREADS = TILE + 32  # that each barrier counts: two compute warps and the DMA warp
FULL = 1  # and 2, for the other tile
EMPTY = 3  # and 4


@cuda.jit
def double(a, x, y):
    tile = cuda.shared.array((2, TILE), np.float32)
    thread, tiles = cuda.threadIdx.x, x.size // TILE
    if thread < TILE:  # the two compute warps
        total = np.float32(0)
        ptx.bar_arrive(EMPTY, THREADS)
        ptx.bar_arrive(EMPTY + 1, THREADS)
        for i in range(tiles):
            ptx.bar_sync(FULL + i % 2, THREADS)
            for j in range(TILE):
                total += a[thread, i * TILE + j] * tile[i % 2, j]
            if i + 2 < tiles:  # the DMA warp fills this tile once more
                ptx.bar_arrive(EMPTY + i % 2, THREADS)
        y[thread] = total
    else:  # the DMA warp
        for i in range(tiles):
            ptx.bar_sync(EMPTY + i % 2, THREADS)
            for j in range(thread - TILE, TILE, 32):
                tile[i % 2, j] = x[i * TILE + j]
            ptx.bar_arrive(FULL + i % 2, THREADS)


a = np.ones((64, 512), np.float32, order="F")  # column by column
x, y = np.arange(512, dtype=np.float32), np.zeros(64, np.float32)
double[1, THREADS](a, x, y)
