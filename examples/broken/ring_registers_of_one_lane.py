"""Setmaxnreg: only the producing lane releases its registers, although the whole warpgroup has to."""

import numpy as np

from wsemu import cuda, ptx
from wsemu.patterns import Pipeline

TILE = 32
RING = Pipeline(2, 1, TILE)


@cuda.jit
def ring_registers_of_one_lane(x, y):
    bars = cuda.shared.array(RING.barriers, np.uint64)
    tile = cuda.shared.array((RING.stages, TILE), np.float32, 16)
    thread, tiles = cuda.threadIdx.x, x.size // TILE
    RING.start(bars)
    if thread == TILE:  # the producer
        ptx.setmaxnreg_dec(40)  # should be executed by all threads of the warpgroup
        for i in range(tiles):
            RING.producer_acquire(bars, i)
            ptx.cp_async_bulk_global_to_shared(tile, (RING.stage(i), 0), x, i * TILE, 4 * TILE, bars, RING.full(i))
            RING.producer_commit(bars, i, 4 * TILE)
    elif thread < TILE:  # the consumers
        for i in range(tiles):
            RING.consumer_wait(bars, i)
            y[i * TILE + thread] = 2 * tile[RING.stage(i), thread]
            RING.consumer_release(bars, i)


ring_registers_of_one_lane[1, 8 * TILE](np.ones(6 * TILE, np.float32), np.zeros(6 * TILE, np.float32))
