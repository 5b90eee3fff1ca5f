"""The fix of `syncwarp_of_the_wrong_half`: a `syncwarp` of the whole warp before the branch."""

import numpy as np

from wsemu import cuda


@cuda.jit
def syncwarp_of_the_wrong_half(x, y):
    tile = cuda.shared.array(32, np.float32)
    lane = cuda.threadIdx.x
    tile[lane] = x[lane]
    cuda.syncwarp()
    if lane >= 16:
        y[lane] = tile[lane - 16]


syncwarp_of_the_wrong_half[1, 32](np.ones(32, np.float32), np.zeros(32, np.float32))
