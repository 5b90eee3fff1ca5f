"""The fix of `one_warp_too_many`: the count of all three warps."""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def one_warp_too_many(y):
    ptx.bar_sync(1, 96)
    y[cuda.threadIdx.x] = 1


one_warp_too_many[1, 96](np.zeros(96, np.int32))
