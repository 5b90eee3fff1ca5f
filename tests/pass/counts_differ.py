"""The fix of `counts_differ`: both sides count all threads that take part."""

import numpy as np

from wsemu import cuda, ptx

COMPUTE_THREADS = 64
ALL = COMPUTE_THREADS + 32


@cuda.jit
def counts_differ(x, y):
    tile = cuda.shared.array(64, np.float32)
    t = cuda.threadIdx.x
    if t < COMPUTE_THREADS:
        ptx.bar_sync(1, ALL)
        y[t] = tile[t]
    else:
        tile[t - 64] = x[t - 64]
        tile[t - 32] = x[t - 32]
        ptx.bar_arrive(1, ALL)


counts_differ[1, 96](np.ones(64, np.float32), np.zeros(64, np.float32))
