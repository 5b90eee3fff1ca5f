"""Uninitialized read: a tile with a border on both sides, whose border nobody fills.

Hardware: whatever an earlier CTA left there.
"""

import numpy as np

from wsemu import cuda


@cuda.jit
def border_never_filled(x, y):
    tile = cuda.shared.array(66, np.float32)
    t = cuda.threadIdx.x
    tile[t + 1] = x[t]
    cuda.syncthreads()
    y[t] = tile[t] + tile[t + 2]  # expect: uninitialized-read


border_never_filled[1, 64](np.ones(64, np.float32), np.zeros(64, np.float32))
