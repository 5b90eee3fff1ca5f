"""Async outlives CTA: the consumers skip the last tile, whose copy may still be in flight when the CTA ends."""

import numpy as np

from wsemu import cuda, ptx
from wsemu.patterns import Pipeline

TILE = 32
RING = Pipeline(2, 1, TILE)


@cuda.jit
def ring_last_tile_unused(x, y):
    bars = cuda.shared.array(RING.barriers, np.uint64)
    tile = cuda.shared.array((RING.stages, TILE), np.float32, 16)
    thread, tiles = cuda.threadIdx.x, x.size // TILE
    RING.start(bars)
    if thread == TILE:  # the producer
        for i in range(tiles):
            RING.producer_acquire(bars, i)
            ptx.cp_async_bulk_global_to_shared(tile, (RING.stage(i), 0), x, i * TILE, 4 * TILE, bars, RING.full(i))
            RING.producer_commit(bars, i, 4 * TILE)
    elif thread < TILE:  # the consumers
        for i in range(tiles - 1):  # should be tiles
            RING.consumer_wait(bars, i)
            y[i * TILE + thread] = 2 * tile[RING.stage(i), thread]
            RING.consumer_release(bars, i)


ring_last_tile_unused[1, 2 * TILE](np.ones(6 * TILE, np.float32), np.zeros(6 * TILE, np.float32))
