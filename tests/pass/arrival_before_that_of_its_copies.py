"""The fix of `arrival_before_that_of_its_copies`: the arrival of the copies comes first."""

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
        ptx.cp_async_ca(tile, t, x, t, 4)
        ptx.cp_async_mbarrier_arrive(full, 0)
        ptx.mbarrier_arrive(full, 0)
    else:
        ptx.mbarrier_wait_parity(full, 0, 0)
        y[t - 32] = tile[31 - t % 32]


arrival_before_that_of_its_copies[1, 64](np.ones(32, np.float32), np.zeros(32, np.float32))
