"""The fix of `slot_used_again_without_inval`: the first one is ended when all have left it."""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def slot_used_again_without_inval(y):
    slot = cuda.shared.array(1, np.uint64)
    t = cuda.threadIdx.x
    for count in (64, 32):
        if t == 0:
            ptx.mbarrier_init(slot, 0, count)
        cuda.syncthreads()
        if t < count:
            ptx.mbarrier_arrive(slot, 0)
        ptx.mbarrier_wait_parity(slot, 0, 0)
        cuda.syncthreads()
        if t == 0:
            ptx.mbarrier_inval(slot, 0)
    y[t] = 1


slot_used_again_without_inval[1, 64](np.zeros(64, np.float32))
