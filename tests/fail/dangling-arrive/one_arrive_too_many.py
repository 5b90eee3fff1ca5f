"""Dangling arrive: the compute warp gives the buffer back after the last tile, too, and nobody takes it.

Hardware: harmless (B11), but a kernel that goes on after this loop starts its barrier with an arrival already counted.
"""

import numpy as np

from wsemu import cuda, ptx

TILES = 3


@cuda.jit
def one_arrive_too_many(x, y):
    tile = cuda.shared.array(32, np.float32)
    lane = cuda.threadIdx.x % 32
    if cuda.threadIdx.x >= 32:  # the DMA warp
        for i in range(TILES):
            if i:
                ptx.bar_sync(2, 64)
            tile[lane] = x[i * 32 + lane]
            ptx.bar_arrive(1, 64)
    else:  # the compute warp
        total = np.float32(0)
        for _ in range(TILES):
            ptx.bar_sync(1, 64)
            total += tile[lane]
            ptx.bar_arrive(2, 64)  # expect: dangling-arrive
        y[lane] = total


one_arrive_too_many[1, 64](np.ones(TILES * 32, np.float32), np.zeros(32, np.float32))
