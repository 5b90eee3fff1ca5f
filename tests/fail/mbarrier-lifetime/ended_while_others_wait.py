"""Mbarrier lifetime: the first warp to leave the wait ends it, while another may still ask.

Reported: triton 11133 and 11244.
Hardware: the word goes on working, until its memory is used for something else (M17).
"""

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
    ptx.mbarrier_wait_parity(done, 0, 0)  # expect: deadlock
    if t == 0:
        ptx.mbarrier_inval(done, 0)  # expect: mbarrier-lifetime
    y[t] = 1


ended_while_others_wait[1, 64](np.zeros(64, np.float32))
