"""Doubles an array through a ring of tiles: four stages hide the copies."""

import numpy as np

from wsemu import cuda, ptx

STAGES = 4
TILE = 2048
COMPUTE = 256
TILES = 16
CTAS = 132


@cuda.jit
def ring(x, y):
    tile = cuda.shared.array((STAGES, TILE), np.float32)
    full = cuda.shared.array(STAGES, np.uint64)
    empty = cuda.shared.array(STAGES, np.uint64)
    thread = cuda.threadIdx.x
    first = cuda.blockIdx.x * TILES
    if thread == 0:
        for stage in range(STAGES):
            ptx.mbarrier_init(full, stage, 1)
            ptx.mbarrier_init(empty, stage, COMPUTE)
        ptx.fence_mbarrier_init()
    cuda.syncthreads()
    if thread >= COMPUTE:
        if thread == COMPUTE:
            for i in range(TILES):
                stage = i % STAGES
                ptx.mbarrier_wait_parity(empty, stage, (i // STAGES + 1) % 2)
                ptx.mbarrier_arrive_expect_tx(full, stage, TILE * 4)
                ptx.cp_async_bulk_global_to_shared(tile[stage], 0, x, (first + i) * TILE, TILE * 4, full, stage)
    else:
        for i in range(TILES):
            stage = i % STAGES
            ptx.mbarrier_wait_parity(full, stage, i // STAGES % 2)
            for k in range(thread, TILE, COMPUTE):
                y[(first + i) * TILE + k] = 2 * tile[stage, k]
            ptx.fence_proxy_async_shared_cta()
            ptx.mbarrier_arrive(empty, stage)


x = np.ones(CTAS * TILES * TILE, np.float32)
ring[CTAS, COMPUTE + 32](x, np.zeros_like(x))
