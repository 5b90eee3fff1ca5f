"""The fix of `scratch_over_a_live_one`: the scratch memory begins behind it."""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def scratch_over_a_live_one(y):
    memory = cuda.shared.array(80, np.uint64)
    t = cuda.threadIdx.x
    if t == 0:
        ptx.mbarrier_init(memory, 0, 64)
    cuda.syncthreads()
    memory[8 + t] = t
    ptx.mbarrier_arrive(memory, 0)
    ptx.mbarrier_wait_parity(memory, 0, 0)
    y[t] = 1


scratch_over_a_live_one[1, 64](np.zeros(64, np.float32))
