"""The fix of `no_barrier_after_init`: all threads meet after the init."""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def no_barrier_after_init(y):
    full = cuda.shared.array(1, np.uint64)
    t = cuda.threadIdx.x
    if t == 0:
        ptx.mbarrier_init(full, 0, 1)
    cuda.syncthreads()
    if t == 0:
        ptx.mbarrier_arrive(full, 0)
    elif t >= 32:
        ptx.mbarrier_wait_parity(full, 0, 0)
        y[t - 32] = 1


no_barrier_after_init[1, 64](np.zeros(32, np.float32))
