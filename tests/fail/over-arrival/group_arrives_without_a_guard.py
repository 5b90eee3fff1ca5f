"""Over arrival: all 64 threads of the consumers arrive where one of each warp was meant.

Reported: ThunderKittens, the guard of its arrive.
Hardware: the launch fails (M4, M6).
"""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def group_arrives_without_a_guard(y):
    done = cuda.shared.array(1, np.uint64)
    t = cuda.threadIdx.x
    if t == 0:
        ptx.mbarrier_init(done, 0, 2)
    cuda.syncthreads()
    y[t] = t
    ptx.mbarrier_arrive(done, 0)  # expect: over-arrival
    ptx.mbarrier_wait_parity(done, 0, 0)


group_arrives_without_a_guard[1, 64](np.zeros(64, np.float32))
