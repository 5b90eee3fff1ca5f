"""The fix of `new_barrier_taken_for_complete`: the first wait is for parity 1."""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def new_barrier_taken_for_complete(y):
    ready = cuda.shared.array(1, np.uint64)
    t = cuda.threadIdx.x
    if t == 0:
        ptx.mbarrier_init(ready, 0, 1)
    cuda.syncthreads()
    if t == 0:
        ptx.mbarrier_wait_parity(ready, 0, 1)
        y[0] = 1
        ptx.mbarrier_arrive(ready, 0)


new_barrier_taken_for_complete[1, 32](np.zeros(1, np.float32))
