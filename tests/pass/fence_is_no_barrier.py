"""The fix of `fence_is_no_barrier`: `syncthreads`, which orders memory too."""

import numpy as np

from wsemu import cuda


@cuda.jit
def fence_is_no_barrier(x, y):
    tile = cuda.shared.array(64, np.float32)
    t = cuda.threadIdx.x
    tile[t] = 0
    cuda.syncthreads()
    tile[t] = x[t]
    cuda.syncthreads()
    y[t] = tile[t ^ 32]


fence_is_no_barrier[1, 64](np.ones(64, np.float32), np.zeros(64, np.float32))
