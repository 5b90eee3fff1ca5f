"""The fix of `expected_by_nobody_who_arrives`: the thread that arrives expects them."""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def expected_by_nobody_who_arrives(x, y):
    tile = cuda.shared.array(32, np.float32, 16)
    full = cuda.shared.array(1, np.uint64)
    t = cuda.threadIdx.x
    if t == 0:
        ptx.mbarrier_init(full, 0, 1)
        ptx.fence_mbarrier_init()
    cuda.syncthreads()
    if t == 32:
        ptx.mbarrier_arrive_expect_tx(full, 0, 128)
        ptx.cp_async_bulk_global_to_shared(tile, 0, x, 0, 128, full, 0)
    ptx.mbarrier_wait_parity(full, 0, 0)
    if t < 32:
        y[t] = tile[t]


expected_by_nobody_who_arrives[1, 64](np.ones(32, np.float32), np.zeros(32, np.float32))
