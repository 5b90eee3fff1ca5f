"""Same value init: all lanes of the producer's warp initialize the two mbarriers of the ring."""

import numpy as np

from wsemu import cuda, ptx

TILE = 32


@cuda.jit
def ring_started_by_a_warp(x, y):
    full = cuda.shared.array(2, np.uint64)
    tile = cuda.shared.array((2, TILE), np.float32, 16)
    thread = cuda.threadIdx.x
    if thread >= TILE:  # should be == TILE
        for stage in range(2):
            ptx.mbarrier_init(full, stage, 1)
        ptx.fence_mbarrier_init()
    cuda.syncthreads()
    if thread == TILE:  # the producer
        for i in range(2):
            ptx.mbarrier_arrive_expect_tx(full, i, 4 * TILE)
            ptx.cp_async_bulk_global_to_shared(tile, (i, 0), x, i * TILE, 4 * TILE, full, i)
    elif thread < TILE:  # the consumers
        for i in range(2):
            ptx.mbarrier_wait_parity(full, i, 0)
            y[i * TILE + thread] = 2 * tile[i, thread]


ring_started_by_a_warp[1, 2 * TILE](np.ones(2 * TILE, np.float32), np.zeros(2 * TILE, np.float32))
