"""Copy size: the last tile is short: its size in bytes is not a multiple of 16."""

import numpy as np

from wsemu import cuda, ptx
from wsemu.patterns import Pipeline

TILE = 32
RING = Pipeline(2, 1, TILE)


@cuda.jit
def ring_ragged_tile(x, y):
    bars = cuda.shared.array(RING.barriers, np.uint64)
    tile = cuda.shared.array((RING.stages, TILE), np.float32, 16)
    thread, tiles = cuda.threadIdx.x, x.size // TILE
    tiles += 1  # the short one
    RING.start(bars)
    if thread == TILE:  # the producer
        for i in range(tiles):
            RING.producer_acquire(bars, i)
            size = 4 * min(TILE, x.size - i * TILE)  # should be rounded up, in an array with room
            ptx.cp_async_bulk_global_to_shared(tile, (RING.stage(i), 0), x, i * TILE, size, bars, RING.full(i))
            RING.producer_commit(bars, i, size)
    elif thread < TILE:  # the consumers
        for i in range(tiles):
            RING.consumer_wait(bars, i)
            if i * TILE + thread < x.size:
                y[i * TILE + thread] = 2 * tile[RING.stage(i), thread]
            RING.consumer_release(bars, i)


ring_ragged_tile[1, 2 * TILE](np.ones(2 * TILE + 5, np.float32), np.zeros(2 * TILE + 5, np.float32))
