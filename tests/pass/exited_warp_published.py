"""No false alarm: a warp stores and ends; a barrier without a count no longer waits for it, and what it stored is seen.

Rule B7.
"""

import numpy as np

from wsemu import cuda


@cuda.jit
def exited_warp_published(x, y):
    tile = cuda.shared.array(32, np.float32)
    lane = cuda.threadIdx.x % 32
    if cuda.threadIdx.x >= 32:
        tile[lane] = x[lane]
        return
    cuda.syncthreads()
    y[lane] = tile[lane]


exited_warp_published[1, 64](np.ones(32, np.float32), np.zeros(32, np.float32))
