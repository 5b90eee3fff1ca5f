"""A DMA warp brings the vector, on two named barriers."""

import numpy as np

from wsemu import cuda, ptx

TILE = 64
THREADS = TILE + 32  # that each barrier counts: two compute warps and the DMA warp
FULL = 1
EMPTY = 2


@cuda.jit
def dma_warp(a, x, y):
    tile = cuda.shared.array(TILE, np.float32)
    thread = cuda.threadIdx.x
    if thread < TILE:  # the two compute warps
        total = np.float32(0)
        for first in range(0, x.size, TILE):
            ptx.bar_arrive(EMPTY, THREADS)
            ptx.bar_sync(FULL, THREADS)
            for j in range(TILE):
                total += a[thread, first + j] * tile[j]
        y[thread] = total
    else:  # the DMA warp
        for first in range(0, x.size, TILE):
            ptx.bar_sync(EMPTY, THREADS)
            for j in range(thread - TILE, TILE, 32):
                tile[j] = x[first + j]
            ptx.bar_arrive(FULL, THREADS)


a = np.ones((64, 128), np.float32, order="F")  # column by column
x, y = np.arange(128, dtype=np.float32), np.zeros(64, np.float32)
dma_warp[1, THREADS](a, x, y)
