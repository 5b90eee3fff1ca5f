"""The fix of `wrong_stage_index`: wait for the buffer that is read."""

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
            tile[stage, lane] = x[i * 32 + lane]
            ptx.bar_arrive(1 + stage, 64)
    else:  # the compute warp
        cuda.syncthreads()
        total = np.float32(0)
        for i in range(TILES):
            stage = i % 2
            ptx.bar_sync(1 + stage, 64)
            total += tile[stage, lane]
            if i < TILES - 2:
                ptx.bar_arrive(3 + stage, 64)
        y[lane] = total


wrong_stage_index[1, 64](np.ones(TILES * 32, np.float32), np.zeros(32, np.float32))
