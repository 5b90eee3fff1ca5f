"""The fix of `two_buffers_one_pair`: a full and an empty barrier for each buffer."""

import numpy as np

from wsemu import cuda, ptx

TILES = 4
FULL = 1
EMPTY = 3


@cuda.jit
def two_buffers_one_pair(x, y):
    tile = cuda.shared.array((2, 32), np.float32)
    lane = cuda.threadIdx.x % 32
    if cuda.threadIdx.x >= 32:  # the DMA warp
        for i in range(TILES):
            stage = i % 2
            if i >= 2:
                ptx.bar_sync(EMPTY + stage, 64)
            tile[stage, lane] = x[i * 32 + lane]
            ptx.bar_arrive(FULL + stage, 64)
    else:  # the compute warp
        total = np.float32(0)
        for i in range(TILES):
            stage = i % 2
            ptx.bar_sync(FULL + stage, 64)
            total += tile[stage, lane]
            if i < TILES - 2:
                ptx.bar_arrive(EMPTY + stage, 64)
        y[lane] = total


two_buffers_one_pair[1, 64](np.ones(TILES * 32, np.float32), np.zeros(32, np.float32))
