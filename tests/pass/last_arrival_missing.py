"""The fix of `last_arrival_missing`: both come."""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def last_arrival_missing(y):
    done = cuda.shared.array(1, np.uint64)
    t = cuda.threadIdx.x
    if t == 0:
        ptx.mbarrier_init(done, 0, 2)
    cuda.syncthreads()
    y[t] = t
    if t == 0:
        ptx.mbarrier_arrive(done, 0)
    if t == 32:
        ptx.mbarrier_arrive(done, 0)


last_arrival_missing[1, 64](np.zeros(64, np.float32))
