"""Deadlock: a new mbarrier is waited for with parity 0, as if it were complete.

Reported: triton 11296.
Hardware: hangs.
"""

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
        ptx.mbarrier_wait_parity(ready, 0, 0)  # expect: deadlock
        y[0] = 1
        ptx.mbarrier_arrive(ready, 0)


new_barrier_taken_for_complete[1, 32](np.zeros(1, np.float32))
