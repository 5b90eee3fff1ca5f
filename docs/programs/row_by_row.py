"""A matrix times a vector: each thread has a row."""

import numpy as np

from wsemu import cuda

TILE = 64


@cuda.jit
def row_by_row(a, x, y):
    tile = cuda.shared.array(TILE, np.float32)
    thread = cuda.threadIdx.x
    total = np.float32(0)
    for first in range(0, x.size, TILE):
        tile[thread] = x[first + thread]
        cuda.syncthreads()  # the tile is full
        for j in range(TILE):
            total += a[thread, first + j] * tile[j]
        cuda.syncthreads()  # nobody needs it any more
    y[thread] = total


a = np.ones((64, 128), np.float32)
x, y = np.arange(128, dtype=np.float32), np.zeros(64, np.float32)
row_by_row[1, TILE](a, x, y)
