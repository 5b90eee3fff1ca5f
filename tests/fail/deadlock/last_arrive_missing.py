"""Deadlock: the DMA warp leaves its loop after the last load and skips the arrive that publishes it.

Hardware: hangs in every run, at the last tile.
"""

import numpy as np

from wsemu import cuda, ptx

TILES = 3


@cuda.jit
def last_arrive_missing(x, y):
    tiles = cuda.shared.array((TILES, 32), np.float32)
    lane = cuda.threadIdx.x % 32
    if cuda.threadIdx.x >= 32:  # the DMA warp
        for i in range(TILES):
            tiles[i, lane] = x[i * 32 + lane]
            if i == TILES - 1:
                break
            ptx.bar_arrive(1 + i, 64)
    else:  # the compute warp
        total = np.float32(0)
        for i in range(TILES):
            ptx.bar_sync(1 + i, 64)  # expect: deadlock
            total += tiles[i, lane]
        y[lane] = total


last_arrive_missing[1, 64](np.ones(TILES * 32, np.float32), np.zeros(32, np.float32))
