"""The fix of `exited_lane_not_named`: all lanes meet before one of them returns."""

import numpy as np

from wsemu import cuda


@cuda.jit
def exited_lane_not_named(y):
    last = cuda.shared.array(1, np.int32)
    t = cuda.threadIdx.x
    if t == 31:
        last[0] = 5
    cuda.syncwarp()
    if t == 31:
        return
    if t == 0:
        y[0] = last[0]


exited_lane_not_named[1, 32](np.zeros(1, np.int32))
