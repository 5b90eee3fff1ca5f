"""The fix of `arrive_is_no_wait`: the side that reads syncs, the side that writes arrives."""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def arrive_is_no_wait(x, y):
    tile = cuda.shared.array(32, np.float32)
    lane = cuda.threadIdx.x % 32
    if cuda.threadIdx.x < 32:  # the DMA warp
        tile[lane] = x[lane]
        ptx.bar_arrive(1, 64)
    else:  # the compute warp
        ptx.bar_sync(1, 64)
        y[lane] = tile[lane]


arrive_is_no_wait[1, 64](np.ones(32, np.float32), np.zeros(32, np.float32))
