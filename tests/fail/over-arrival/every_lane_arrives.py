"""Over arrival: each of 32 lanes arrives, and one arrival is waited for.

Reported: tvm 20250.
Hardware: the launch fails (M4, M6).
"""

import numpy as np

from wsemu import cuda, ptx

TILES = 5


@cuda.jit
def every_lane_arrives(x, y):
    tile = cuda.shared.array((2, 32), np.float32, 16)
    full, empty = cuda.shared.array(2, np.uint64), cuda.shared.array(2, np.uint64)
    warp, lane = cuda.threadIdx.x // 32, cuda.threadIdx.x % 32
    if cuda.threadIdx.x == 0:
        for s in range(2):
            ptx.mbarrier_init(full, s, 1)
            ptx.mbarrier_init(empty, s, 1)
            ptx.fence_mbarrier_init()
    cuda.syncthreads()
    if warp == 0:
        if lane == 0:
            for i in range(TILES):
                s, turn = i % 2, i // 2
                ptx.mbarrier_wait_parity(empty, s, turn & 1 ^ 1)
                ptx.mbarrier_arrive_expect_tx(full, s, 128)
                ptx.cp_async_bulk_global_to_shared(tile, (s, 0), x, i * 32, 128, full, s)
    else:
        for i in range(TILES):
            s, turn = i % 2, i // 2
            ptx.mbarrier_wait_parity(full, s, turn & 1)
            y[i * 32 + lane] = tile[s, lane]
            ptx.fence_proxy_async()
            cuda.syncwarp()
            ptx.mbarrier_arrive(empty, s)  # expect: over-arrival


every_lane_arrives[1, 64](np.ones(32 * TILES, np.float32), np.zeros(32 * TILES, np.float32))
