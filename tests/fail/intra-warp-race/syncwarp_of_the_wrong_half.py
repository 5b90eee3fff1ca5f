"""Intra-warp race: the upper half of a warp reads words of the lower half after a `syncwarp` of the upper half alone.

Hardware: the mask's lanes wait for each other, not for those that stored.
"""

import numpy as np

from wsemu import cuda


@cuda.jit
def syncwarp_of_the_wrong_half(x, y):
    tile = cuda.shared.array(32, np.float32)
    lane = cuda.threadIdx.x
    tile[lane] = x[lane]
    if lane >= 16:
        cuda.syncwarp(0xFFFF0000)
        y[lane] = tile[lane - 16]  # expect: intra-warp-race


syncwarp_of_the_wrong_half[1, 32](np.ones(32, np.float32), np.zeros(32, np.float32))
