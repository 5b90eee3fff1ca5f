"""The fix of `more_bytes_than_expected`: it expects all of it."""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def more_bytes_than_expected(x, y):
    tile = cuda.shared.array(64, np.float32, 16)
    full = cuda.shared.array(1, np.uint64)
    t = cuda.threadIdx.x
    if t == 0:
        ptx.mbarrier_init(full, 0, 1)
        ptx.fence_mbarrier_init()
    cuda.syncthreads()
    if t == 0:
        ptx.mbarrier_expect_tx(full, 0, 256)
        ptx.cp_async_bulk_global_to_shared(tile, 0, x, 0, 256, full, 0)
        ptx.mbarrier_arrive(full, 0)
        ptx.mbarrier_wait_parity(full, 0, 0)


more_bytes_than_expected[1, 64](np.ones(64, np.float32), np.zeros(64, np.float32))
