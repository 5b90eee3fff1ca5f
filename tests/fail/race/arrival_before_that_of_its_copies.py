"""Race: the arrival of the copies counts itself in only after the plain one has completed the phase.

Reported: pipelines of sm_80 with and without `.noinc`.
Hardware: old or mixed values, now and then.
"""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def arrival_before_that_of_its_copies(x, y):
    tile = cuda.shared.array(32, np.float32)
    full = cuda.shared.array(1, np.uint64)
    t = cuda.threadIdx.x
    if t == 0:
        ptx.mbarrier_init(full, 0, 32)
    cuda.syncthreads()
    if t < 32:
        ptx.cp_async_ca(tile, t, x, t, 4)  # expect: async-outlives-cta
        ptx.mbarrier_arrive(full, 0)
        ptx.cp_async_mbarrier_arrive(full, 0)  # expect: phase-alias, phase-unobserved
    else:
        ptx.mbarrier_wait_parity(full, 0, 0)
        y[t - 32] = tile[31 - t % 32]  # expect: race


arrival_before_that_of_its_copies[1, 64](np.ones(32, np.float32), np.zeros(32, np.float32))
