"""No false alarm: two warps store the even and the odd bytes of the same words.

Accesses are compared byte by byte.
"""

import numpy as np

from wsemu import cuda


@cuda.jit
def bytes_side_by_side(y):
    tile = cuda.shared.array(64, np.int8)
    t = cuda.threadIdx.x
    tile[2 * (t % 32) + t // 32] = t
    cuda.syncthreads()
    y[t] = tile[t]


bytes_side_by_side[1, 64](np.zeros(64, np.int8))
