"""The fix of `elected_lane_arrives`: the whole warp arrives."""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def elected_lane_arrives(x, y):
    tile = cuda.shared.array(32, np.float32)
    lane = cuda.threadIdx.x % 32
    if cuda.threadIdx.x >= 32:  # the DMA warp
        tile[lane] = x[lane]
        ptx.bar_arrive(1, 64)
    else:  # the compute warp
        ptx.bar_sync(1, 64)
        y[lane] = tile[lane]


elected_lane_arrives[1, 64](np.ones(32, np.float32), np.zeros(32, np.float32))
