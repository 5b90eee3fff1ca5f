"""Intra-warp race: after an arrive, a lane reads what another lane of its warp stored before it.

An arrive waits for nobody, not even for the other lanes of its own warp.
Hardware: since sm_70 the lanes may run apart again after the arrive, and nothing makes their stores seen by each
other.
"""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def arrive_orders_no_lanes(x, y):
    tile = cuda.shared.array(32, np.float32)
    lane = cuda.threadIdx.x % 32
    if cuda.threadIdx.x < 32:
        tile[lane] = x[lane]
        ptx.bar_arrive(1, 64)
        y[lane] = tile[31 - lane]  # expect: intra-warp-race
    else:
        ptx.bar_sync(1, 64)
        y[lane + 32] = tile[31 - lane]


arrive_orders_no_lanes[1, 64](np.ones(32, np.float32), np.zeros(64, np.float32))
