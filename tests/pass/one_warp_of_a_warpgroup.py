"""The fix of `one_warp_of_a_warpgroup`: all four give them, and three leave then."""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit(max_registers=168)
def one_warp_of_a_warpgroup(y):
    if cuda.threadIdx.x >= 128:
        ptx.setmaxnreg_dec(40)
        if cuda.threadIdx.x >= 160:
            return
    y[cuda.threadIdx.x] = 1


one_warp_of_a_warpgroup[1, 256](np.zeros(256, np.float32))
