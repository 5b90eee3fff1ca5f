"""The fix of `last_arrive_missing`: arrive after every load."""

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
            ptx.bar_arrive(1 + i, 64)
    else:  # the compute warp
        total = np.float32(0)
        for i in range(TILES):
            ptx.bar_sync(1 + i, 64)
            total += tiles[i, lane]
        y[lane] = total


last_arrive_missing[1, 64](np.ones(TILES * 32, np.float32), np.zeros(32, np.float32))
