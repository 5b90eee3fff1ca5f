"""Phase unobserved: a stage is refilled after the next tile is done, and no thread waits for the stage's own `done`."""

import numpy as np

from wsemu import cuda, ptx

TILE = 32
TILES = 4


@cuda.jit
def stage_freed_unseen(x, y):
    full = cuda.shared.array(2, np.uint64)
    done = cuda.shared.array(2, np.uint64)
    tile = cuda.shared.array((2, TILE), np.float32, 16)
    thread = cuda.threadIdx.x
    if thread == TILE:
        for stage in range(2):
            ptx.mbarrier_init(full, stage, 1)
            ptx.mbarrier_init(done, stage, 1)
        ptx.fence_mbarrier_init()
    cuda.syncthreads()
    if thread == TILE:  # the producer
        for i in range(TILES):
            if i == 2:  # should wait for done[i % 2] from here on
                ptx.mbarrier_wait_parity(done, 1, 0)
            ptx.mbarrier_arrive_expect_tx(full, i % 2, 4 * TILE)
            ptx.cp_async_bulk_global_to_shared(tile, (i % 2, 0), x, i * TILE, 4 * TILE, full, i % 2)
    elif thread < TILE:  # the consumers
        for i in range(TILES):
            ptx.mbarrier_wait_parity(full, i % 2, i // 2)
            y[i * TILE + thread] = 2 * tile[i % 2, thread]
            cuda.syncwarp()
            if thread == 0:
                ptx.fence_proxy_async()
                ptx.mbarrier_arrive(done, i % 2)


stage_freed_unseen[1, 2 * TILE](np.ones(TILES * TILE, np.float32), np.zeros(TILES * TILE, np.float32))
