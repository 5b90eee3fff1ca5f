"""Uncovered expectation: the lane that copies expects the bytes, and the next lane arrives, perhaps earlier."""

import numpy as np

from wsemu import cuda, ptx
from wsemu.patterns import Pipeline

TILE = 32
RING = Pipeline(2, 1, TILE)


@cuda.jit
def ring_expected_by_another(x, y):
    bars = cuda.shared.array(RING.barriers, np.uint64)
    tile = cuda.shared.array((RING.stages, TILE), np.float32, 16)
    thread, tiles = cuda.threadIdx.x, x.size // TILE
    RING.start(bars)
    if thread >= TILE:  # the producing warp
        for i in range(tiles):
            RING.producer_acquire(bars, i)
            if thread == TILE:
                ptx.mbarrier_expect_tx(bars, RING.full(i), 4 * TILE)  # should arrive, too
                ptx.cp_async_bulk_global_to_shared(tile, (RING.stage(i), 0), x, i * TILE, 4 * TILE, bars, RING.full(i))
            if thread == TILE + 1:
                ptx.mbarrier_arrive(bars, RING.full(i))
    else:  # the consumers
        for i in range(tiles):
            RING.consumer_wait(bars, i)
            y[i * TILE + thread] = 2 * tile[RING.stage(i), thread]
            RING.consumer_release(bars, i)


ring_expected_by_another[1, 2 * TILE](np.ones(6 * TILE, np.float32), np.zeros(6 * TILE, np.float32))
