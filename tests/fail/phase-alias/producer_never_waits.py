"""Phase alias: the producer fills a stage again without asking whether it is empty.

Reported: GiMMiK 23.
Hardware: hangs, or stale tiles, now and then.
"""

import numpy as np

from wsemu import cuda, ptx

TILES = 5


@cuda.jit
def producer_never_waits(x, y):
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
                s, turn = i % 2, i // 2
                ptx.mbarrier_arrive_expect_tx(full, s, 128)  # expect: phase-alias, phase-unobserved
                ptx.cp_async_bulk_global_to_shared(tile, (s, 0), x, i * 32, 128, full, s)  # expect: phase-alias, race
    else:
        for i in range(TILES):
            s, turn = i % 2, i // 2
            ptx.mbarrier_wait_parity(full, s, turn & 1)  # expect: phase-alias, deadlock
            y[i * 32 + lane] = tile[s, lane]
            ptx.fence_proxy_async()
            ptx.mbarrier_arrive(empty, s)


producer_never_waits[1, 64](np.ones(32 * TILES, np.float32), np.zeros(32 * TILES, np.float32))
