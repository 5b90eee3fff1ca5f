"""Intra-warp race: a lane stores and returns, and the others meet in a `syncwarp` whose mask leaves it out.

Hardware: nothing makes the others wait for a lane that is not in the mask, so that the store may still be to come.
"""

import numpy as np

from wsemu import cuda


@cuda.jit
def exited_lane_not_named(y):
    last = cuda.shared.array(1, np.int32)
    t = cuda.threadIdx.x
    if t == 31:
        last[0] = 5
        return
    cuda.syncwarp(0x7FFFFFFF)
    if t == 0:
        y[0] = last[0]  # expect: intra-warp-race


exited_lane_not_named[1, 32](np.zeros(1, np.int32))
