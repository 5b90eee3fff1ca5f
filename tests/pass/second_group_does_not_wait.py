"""The fix of `second_group_does_not_wait`: each group waits."""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def second_group_does_not_wait(x, y):
    tile = cuda.shared.array(32, np.float32)
    full = cuda.shared.array(1, np.uint64)
    t = cuda.threadIdx.x
    if t == 0:
        ptx.mbarrier_init(full, 0, 1)
        ptx.fence_mbarrier_init()
    cuda.syncthreads()
    if t == 0:
        ptx.mbarrier_arrive_expect_tx(full, 0, 128)
        ptx.cp_async_bulk_global_to_shared(tile, 0, x, 0, 128, full, 0)
    elif t >= 32:
        ptx.mbarrier_wait_parity(full, 0, 0)
        y[t - 32] = tile[t % 32]


second_group_does_not_wait[1, 96](np.ones(32, np.float32), np.zeros(64, np.float32))
