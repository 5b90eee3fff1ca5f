"""The fix of `more_threads_than_the_cta`: a launch with the five warps."""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def more_threads_than_the_cta(y):
    ptx.bar_sync(1, 160)
    y[cuda.threadIdx.x] = 1


more_threads_than_the_cta[1, 160](np.zeros(160, np.int32))
