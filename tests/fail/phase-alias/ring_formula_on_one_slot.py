"""Phase alias: the parity of a ring of two stages on a single mbarrier: the wait may be for a phase long over.

Reported: tilelang 3087.
Hardware: hangs, or stale tiles, now and then.
"""

import numpy as np

from wsemu import cuda, ptx

TILES = 4


@cuda.jit
def ring_formula_on_one_slot(x, y):
    tile = cuda.shared.array((2, 32), np.float32, 16)
    full, empty = cuda.shared.array(2, np.uint64), cuda.shared.array(2, np.uint64)
    warp, lane = cuda.threadIdx.x // 32, cuda.threadIdx.x % 32
    if cuda.threadIdx.x == 0:
        for s in range(2):
            ptx.mbarrier_init(full, s, 1)
            ptx.mbarrier_init(empty, s, 32)
            ptx.fence_mbarrier_init()
    cuda.syncthreads()
    if warp == 0:
        if lane == 0:
            for i in range(TILES):
                s = 0
                ptx.mbarrier_wait_parity(empty, s, i & 1 ^ 1)  # expect: deadlock
                ptx.mbarrier_arrive_expect_tx(full, s, 128)
                ptx.cp_async_bulk_global_to_shared(tile, (s, 0), x, i * 32, 128, full, s)
    else:
        for i in range(TILES):
            s = 0
            ptx.mbarrier_wait_parity(full, s, (i // 2) & 1)
            y[i * 32 + lane] = tile[s, lane]
            ptx.fence_proxy_async()
            ptx.mbarrier_arrive(empty, s)  # expect: phase-alias, phase-unobserved


ring_formula_on_one_slot[1, 64](np.ones(32 * TILES, np.float32), np.zeros(32 * TILES, np.float32))
