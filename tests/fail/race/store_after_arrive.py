"""Race: the DMA warp says that the tile is full before it stores the second half.

Hardware: the compute warp reads old words in the second half.
"""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def store_after_arrive(x, y):
    tile = cuda.shared.array(64, np.float32)
    lane = cuda.threadIdx.x % 32
    if cuda.threadIdx.x < 32:  # the DMA warp
        tile[lane] = x[lane]
        ptx.bar_arrive(1, 64)
        tile[lane + 32] = x[lane + 32]
    else:  # the compute warp
        ptx.bar_sync(1, 64)
        y[lane] = tile[lane] + tile[lane + 32]  # expect: race


store_after_arrive[1, 64](np.ones(64, np.float32), np.zeros(32, np.float32))
