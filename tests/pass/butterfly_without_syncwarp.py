"""The fix of `butterfly_without_syncwarp`: `syncwarp` after the store and after the load."""

import numpy as np

from wsemu import cuda


@cuda.jit
def butterfly_without_syncwarp(x, y):
    sums = cuda.shared.array(32, np.float32)
    lane = cuda.threadIdx.x
    total = x[lane]
    for step in (16, 8, 4, 2, 1):
        sums[lane] = total
        cuda.syncwarp()
        total += sums[lane ^ step]
        cuda.syncwarp()
    y[lane] = total


butterfly_without_syncwarp[1, 32](np.ones(32, np.float32), np.zeros(32, np.float32))
