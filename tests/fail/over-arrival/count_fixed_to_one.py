"""Over arrival: the count is fixed to 1, and every thread arrives.

Reported: cutlass 2418.
Hardware: the launch fails (M4, M6).
"""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def count_fixed_to_one(y):
    done = cuda.shared.array(1, np.uint64)
    t = cuda.threadIdx.x
    if t == 0:
        ptx.mbarrier_init(done, 0, 1)
    cuda.syncthreads()
    y[t] = t
    ptx.mbarrier_arrive(done, 0)  # expect: over-arrival
    ptx.mbarrier_wait_parity(done, 0, 0)


count_fixed_to_one[1, 64](np.zeros(64, np.float32))
