"""The fix of `neighbour_without_syncwarp`: `syncwarp` between the store and the load."""

import numpy as np

from wsemu import cuda


@cuda.jit
def neighbour_without_syncwarp(x, y):
    tile = cuda.shared.array(32, np.float32)
    lane = cuda.threadIdx.x
    tile[lane] = x[lane]
    cuda.syncwarp()
    y[lane] = tile[(lane + 1) % 32]


neighbour_without_syncwarp[1, 32](np.ones(32, np.float32), np.zeros(32, np.float32))
