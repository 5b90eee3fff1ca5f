"""The fix of `ended_while_others_wait`: it is ended when all have left it."""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def ended_while_others_wait(y):
    done = cuda.shared.array(1, np.uint64)
    t = cuda.threadIdx.x
    if t == 0:
        ptx.mbarrier_init(done, 0, 64)
    cuda.syncthreads()
    ptx.mbarrier_arrive(done, 0)
    ptx.mbarrier_wait_parity(done, 0, 0)
    cuda.syncthreads()
    if t == 0:
        ptx.mbarrier_inval(done, 0)
    y[t] = 1


ended_while_others_wait[1, 64](np.zeros(64, np.float32))
