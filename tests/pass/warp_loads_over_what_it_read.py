"""The fix of `warp_loads_over_what_it_read`: each lane fences before the warp comes together."""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def warp_loads_over_what_it_read(x, y):
    tile = cuda.shared.array(32, np.float32)
    full = cuda.shared.array(1, np.uint64)
    lane = cuda.threadIdx.x
    if lane == 0:
        ptx.mbarrier_init(full, 0, 1)
        ptx.fence_mbarrier_init()
    cuda.syncwarp()
    for i in range(2):
        if lane == 0:
            ptx.mbarrier_arrive_expect_tx(full, 0, 128)
            ptx.cp_async_bulk_global_to_shared(tile, 0, x, i * 32, 128, full, 0)
        ptx.mbarrier_wait_parity(full, 0, i)
        y[i * 32 + lane] = tile[lane]
        ptx.fence_proxy_async()
        cuda.syncwarp()


warp_loads_over_what_it_read[1, 32](np.ones(64, np.float32), np.zeros(64, np.float32))
