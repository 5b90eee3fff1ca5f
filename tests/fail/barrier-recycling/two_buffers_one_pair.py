"""Barrier recycling: two buffers share one pair of barriers, full and empty.

Each side may be a buffer ahead of the other, and then its second arrival can be counted into the generation of its
first.
Hardware: works while both sides keep step; else two arrivals of one warp complete a generation that releases nobody,
and the other side waits for ever.
"""

import numpy as np

from wsemu import cuda, ptx

TILES = 4
FULL = 1
EMPTY = 2


@cuda.jit
def two_buffers_one_pair(x, y):
    tile = cuda.shared.array((2, 32), np.float32)
    lane = cuda.threadIdx.x % 32
    if cuda.threadIdx.x >= 32:  # the DMA warp
        for i in range(TILES):
            if i >= 2:
                ptx.bar_sync(EMPTY, 64)
            tile[i % 2, lane] = x[i * 32 + lane]
            ptx.bar_arrive(FULL, 64)  # expect: barrier-recycling
    else:  # the compute warp
        total = np.float32(0)
        for i in range(TILES):
            ptx.bar_sync(FULL, 64)
            total += tile[i % 2, lane]
            if i < TILES - 2:
                ptx.bar_arrive(EMPTY, 64)  # expect: barrier-recycling
        y[lane] = total


two_buffers_one_pair[1, 64](np.ones(TILES * 32, np.float32), np.zeros(32, np.float32))
