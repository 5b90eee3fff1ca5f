"""Proxy: a bulk copy reads the result that the lanes have stored, without a proxy fence in between."""

import numpy as np

from wsemu import cuda, ptx
from wsemu.patterns import Pipeline

TILE = 32
RING = Pipeline(2, 1, TILE)


@cuda.jit
def ring_stored_without_fence(x, y):
    bars = cuda.shared.array(RING.barriers, np.uint64)
    tile = cuda.shared.array((RING.stages, TILE), np.float32, 16)
    result = cuda.shared.array(TILE, np.float32, 16)
    thread, tiles = cuda.threadIdx.x, x.size // TILE
    RING.start(bars)
    if thread == TILE:  # the producer
        for i in range(tiles):
            RING.producer_acquire(bars, i)
            ptx.cp_async_bulk_global_to_shared(tile, (RING.stage(i), 0), x, i * TILE, 4 * TILE, bars, RING.full(i))
            RING.producer_commit(bars, i, 4 * TILE)
    elif thread < TILE:  # the consumers
        for i in range(tiles):
            RING.consumer_wait(bars, i)
            result[thread] = 2 * tile[RING.stage(i), thread]
            # ptx.fence_proxy_async() belongs here
            cuda.syncwarp()
            if thread == 0:
                ptx.cp_async_bulk_shared_to_global(y, i * TILE, result, 0, 4 * TILE)
                ptx.cp_async_bulk_commit_group()
                ptx.cp_async_bulk_wait_group(0)
            cuda.syncwarp()
            RING.consumer_release(bars, i)


ring_stored_without_fence[1, 2 * TILE](np.ones(6 * TILE, np.float32), np.zeros(6 * TILE, np.float32))
