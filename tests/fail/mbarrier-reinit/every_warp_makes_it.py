"""Mbarrier reinit: each warp has its elected lane make the same mbarrier.

Reported: TIRx-kernels 6.
Hardware: the second init overwrites the count and loses what has arrived (M18).
"""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def every_warp_makes_it(y):
    done = cuda.shared.array(1, np.uint64)
    t = cuda.threadIdx.x
    if t % 32 == 0:
        ptx.mbarrier_init(done, 0, 64)  # expect: mbarrier-reinit
    cuda.syncthreads()
    ptx.mbarrier_arrive(done, 0)
    ptx.mbarrier_wait_parity(done, 0, 0)
    y[t] = 1


every_warp_makes_it[1, 64](np.zeros(64, np.float32))
