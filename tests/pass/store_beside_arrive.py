"""The fix of `store_beside_arrive`: the lanes meet between the stores and the arrive."""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def store_beside_arrive(x, y):
    tile = cuda.shared.array(16, np.float32)
    lane = cuda.threadIdx.x % 32
    if cuda.threadIdx.x >= 32:
        if lane < 16:
            tile[lane] = x[lane]
        cuda.syncwarp()
        if lane >= 16:
            ptx.barrier_arrive(1, 64)
    else:
        ptx.bar_sync(1, 64)
        if lane < 16:
            y[lane] = tile[lane]


store_beside_arrive[1, 64](np.ones(16, np.float32), np.zeros(16, np.float32))
