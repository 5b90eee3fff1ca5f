"""The fix of `two_pipelines_one_id`: an id for each pair."""

import numpy as np

from wsemu import cuda, ptx

FULL = 1


@cuda.jit
def two_pipelines_one_id(x, y):
    tile = cuda.shared.array((2, 32), np.float32)
    lane = cuda.threadIdx.x % 32
    warp = cuda.threadIdx.x // 32
    pair = warp // 2
    if warp % 2 == 0:  # a compute warp
        ptx.bar_sync(FULL + pair, 64)
        y[pair * 32 + lane] = tile[pair, lane]
    else:  # its DMA warp
        tile[pair, lane] = x[pair * 32 + lane]
        ptx.bar_arrive(FULL + pair, 64)


two_pipelines_one_id[1, 128](np.ones(64, np.float32), np.zeros(64, np.float32))
