"""The fix of `border_never_filled`: the first two threads fill the border."""

import numpy as np

from wsemu import cuda


@cuda.jit
def border_never_filled(x, y):
    tile = cuda.shared.array(66, np.float32)
    t = cuda.threadIdx.x
    tile[t + 1] = x[t]
    if t < 2:
        tile[65 * t] = 0
    cuda.syncthreads()
    y[t] = tile[t] + tile[t + 2]


border_never_filled[1, 64](np.ones(64, np.float32), np.zeros(64, np.float32))
