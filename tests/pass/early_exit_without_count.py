"""No false alarm: a warp without work returns before a `syncthreads`, which then waits for the others alone (B7)."""

import numpy as np

from wsemu import cuda


@cuda.jit
def early_exit_without_count(n, x, y):
    tile = cuda.shared.array(96, np.float32)
    t = cuda.threadIdx.x
    if t >= n:
        return
    tile[t] = x[t]
    cuda.syncthreads()
    y[t] = tile[n - 1 - t]


early_exit_without_count[1, 96](64, np.ones(64, np.float32), np.zeros(64, np.float32))
