"""The plain kernel without its second barrier."""

import numpy as np

from wsemu import cuda

TILE = 64


@cuda.jit
def one_barrier(a, x, y):
    tile = cuda.shared.array(TILE, np.float32)
    thread = cuda.threadIdx.x
    total = np.float32(0)
    for first in range(0, x.size, TILE):
        tile[thread] = x[first + thread]
        cuda.syncthreads()
        for j in range(TILE):
            total += a[thread, first + j] * tile[j]
    y[thread] = total


a = np.ones((64, 128), np.float32, order="F")  # column by column
x, y = np.arange(128, dtype=np.float32), np.zeros(64, np.float32)
one_barrier[1, TILE](a, x, y)
