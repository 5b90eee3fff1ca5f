"""The fix of `partial_warp_count`: whole warps meet."""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def partial_warp_count(threads, y):
    t = cuda.threadIdx.x
    if t < threads:
        ptx.barrier_sync(1, threads)
        y[t] = 1


partial_warp_count[1, 96](64, np.zeros(64, np.int32))
