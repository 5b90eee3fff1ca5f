"""Barrier divergence: all lanes store, one elected lane arrives with an aligned barrier while the others are elsewhere.

Reported: cudnn-frontend PR 426, 32 lanes store and one arrives with no `syncwarp` between.
Hardware: undefined in PTX; the H200 counts the whole warp for the one lane.  What the other lanes have stored is not
promised to be seen (B14).
"""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def elected_lane_arrives(x, y):
    tile = cuda.shared.array(32, np.float32)
    lane = cuda.threadIdx.x % 32
    if cuda.threadIdx.x >= 32:  # the DMA warp
        tile[lane] = x[lane]
        if lane == 0:
            ptx.bar_arrive(1, 64)  # expect: barrier-divergence
    else:  # the compute warp
        ptx.bar_sync(1, 64)
        y[lane] = tile[lane]  # expect: race


elected_lane_arrives[1, 64](np.ones(32, np.float32), np.zeros(32, np.float32))
