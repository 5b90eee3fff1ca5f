"""No false alarm: a shuffle of all lanes orders what they did before it, as `syncwarp` does."""

import numpy as np

from wsemu import cuda


@cuda.jit
def shuffles_order_lanes(x, y):
    tile = cuda.shared.array(32, np.float32)
    lane = cuda.threadIdx.x
    tile[lane] = x[lane]
    other = cuda.shfl_xor_sync(0xFFFFFFFF, x[lane], 1)
    y[lane] = other + tile[31 - lane]


shuffles_order_lanes[1, 32](np.ones(32, np.float32), np.zeros(32, np.float32))
