"""Race: two buffers, each with its own barriers, but the compute warp waits for one and reads the other.

Reported: tilelang 2927 and triton PR 10035 have the same confusion of stage and phase, with mbarriers.
Hardware: tiles of the wrong iteration, half written.
"""

import numpy as np

from wsemu import cuda, ptx

TILES = 4


@cuda.jit
def wrong_stage_index(x, y):
    tile = cuda.shared.array((2, 32), np.float32)
    lane = cuda.threadIdx.x % 32
    if cuda.threadIdx.x < 32:  # the DMA warp
        tile[1, lane] = 0
        cuda.syncthreads()
        for i in range(TILES):
            stage = i % 2
            if i >= 2:
                ptx.bar_sync(3 + stage, 64)
            tile[stage, lane] = x[i * 32 + lane]  # expect: race
            ptx.bar_arrive(1 + stage, 64)
    else:  # the compute warp
        cuda.syncthreads()
        total = np.float32(0)
        for i in range(TILES):
            stage = i % 2
            ptx.bar_sync(1 + stage, 64)
            total += tile[1 - stage, lane]  # expect: race
            if i < TILES - 2:
                ptx.bar_arrive(3 + stage, 64)
        y[lane] = total


wrong_stage_index[1, 64](np.ones(TILES * 32, np.float32), np.zeros(32, np.float32))
