"""Deadlock: a loop peeled for its first and last tile waits for a tile that a launch of one tile never loads.

Reported: tilelang 2566, a pipeline with one iteration.
Hardware: hangs in every run with one tile, fine with more.
"""

import numpy as np

from wsemu import cuda, ptx

EMPTY = 1
FULL = 2


@cuda.jit
def pipeline_of_one_tile(tiles, x, y):
    tile = cuda.shared.array(32, np.float32)
    lane = cuda.threadIdx.x % 32
    if cuda.threadIdx.x >= 32:  # the DMA warp
        for i in range(tiles):
            if i:
                ptx.bar_sync(EMPTY, 64)
            tile[lane] = x[i * 32 + lane]
            ptx.bar_arrive(FULL, 64)
    else:  # the compute warp, with its first and last tile outside the loop
        ptx.bar_sync(FULL, 64)
        total = tile[lane]
        ptx.bar_arrive(EMPTY, 64)
        for _ in range(1, tiles - 1):
            ptx.bar_sync(FULL, 64)
            total += tile[lane]
            ptx.bar_arrive(EMPTY, 64)
        ptx.bar_sync(FULL, 64)  # expect: deadlock
        total += tile[lane]
        y[lane] = total


pipeline_of_one_tile[1, 64](1, np.ones(32, np.float32), np.zeros(32, np.float32))
