"""The fix of `syncthreads_under_a_condition`: the barrier stands outside, and only the work depends on n."""

import numpy as np

from wsemu import cuda


@cuda.jit
def syncthreads_under_a_condition(n, x, y):
    tile = cuda.shared.array(64, np.float32)
    t = cuda.threadIdx.x
    if t < n:
        tile[t] = x[t]
    cuda.syncthreads()
    if t < n:
        y[t] = tile[n - 1 - t]


syncthreads_under_a_condition[1, 64](40, np.ones(40, np.float32), np.zeros(40, np.float32))
