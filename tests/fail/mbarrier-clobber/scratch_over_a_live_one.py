"""Mbarrier clobber: scratch memory overlaps a live mbarrier.

Reported: triton 11120.
Hardware: the store is not seen by the unit that holds the live mbarrier, and lost (M17).
"""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def scratch_over_a_live_one(y):
    memory = cuda.shared.array(80, np.uint64)
    t = cuda.threadIdx.x
    if t == 0:
        ptx.mbarrier_init(memory, 0, 64)
    cuda.syncthreads()
    memory[t] = t  # expect: mbarrier-clobber
    ptx.mbarrier_arrive(memory, 0)
    ptx.mbarrier_wait_parity(memory, 0, 0)
    y[t] = 1


scratch_over_a_live_one[1, 64](np.zeros(64, np.float32))
