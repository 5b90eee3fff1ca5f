"""Proxy war: a plain wait replaces `RING.producer_acquire`, which contains the proxy fence."""

import numpy as np

from wsemu import cuda, ptx
from wsemu.patterns import Pipeline

TILE = 32
RING = Pipeline(2, 1, TILE)


@cuda.jit
def ring_waited_by_hand(x, y):
    bars = cuda.shared.array(RING.barriers, np.uint64)
    tile = cuda.shared.array((RING.stages, TILE), np.float32, 16)
    thread, tiles = cuda.threadIdx.x, x.size // TILE
    RING.start(bars)
    if thread == TILE:  # the producer
        for i in range(tiles):
            ptx.mbarrier_wait_parity(bars, RING.empty(i), RING.parity(i) ^ 1)  # and ptx.fence_proxy_async()
            ptx.cp_async_bulk_global_to_shared(tile, (RING.stage(i), 0), x, i * TILE, 4 * TILE, bars, RING.full(i))
            RING.producer_commit(bars, i, 4 * TILE)
    elif thread < TILE:  # the consumers
        for i in range(tiles):
            RING.consumer_wait(bars, i)
            y[i * TILE + thread] = 2 * tile[RING.stage(i), thread]
            RING.consumer_release(bars, i)


ring_waited_by_hand[1, 2 * TILE](np.ones(6 * TILE, np.float32), np.zeros(6 * TILE, np.float32))
