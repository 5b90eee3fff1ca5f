"""Race: half of a warp stores, and the other half arrives for it, in the other branch.

Hardware: the arrive waits until the storing lanes have come to it or ended; PTX promises the order
of memory for the lanes that execute it alone (B14).
"""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def store_beside_arrive(x, y):
    tile = cuda.shared.array(16, np.float32)
    lane = cuda.threadIdx.x % 32
    if cuda.threadIdx.x >= 32:
        if lane < 16:
            tile[lane] = x[lane]
        else:
            ptx.barrier_arrive(1, 64)
    else:
        ptx.bar_sync(1, 64)
        if lane < 16:
            y[lane] = tile[lane]  # expect: race


store_beside_arrive[1, 64](np.ones(16, np.float32), np.zeros(16, np.float32))
