"""Deadlock: bytes are expected on one mbarrier, and the wait is for another.

Reported: tilelang 1828.
Hardware: hangs.
"""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def waits_for_another_stage(x, y):
    tile = cuda.shared.array((2, 32), np.float32, 16)
    full = cuda.shared.array(2, np.uint64)
    lane = cuda.threadIdx.x
    if lane == 0:
        for s in range(2):
            ptx.mbarrier_init(full, s, 1)
            ptx.fence_mbarrier_init()
    cuda.syncwarp()
    for s in range(2):
        if lane == 0:
            ptx.mbarrier_arrive_expect_tx(full, s, 128)
            ptx.cp_async_bulk_global_to_shared(tile, (s, 0), x, s * 32, 128, full, s)
        ptx.mbarrier_wait_parity(full, 1 - s, 0)  # expect: deadlock
        y[s * 32 + lane] = tile[s, lane]


waits_for_another_stage[1, 32](np.ones(64, np.float32), np.zeros(64, np.float32))
