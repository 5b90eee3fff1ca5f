"""Race: the compute warp only arrives on a barrier that it should sync on, before it reads the tile.

An arriver acquires nothing (B13), even if the other side's sync completes the generation.
Hardware: the tile may be read before it is written.
"""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def arrive_is_no_wait(x, y):
    tile = cuda.shared.array(32, np.float32)
    lane = cuda.threadIdx.x % 32
    if cuda.threadIdx.x < 32:  # the DMA warp
        tile[lane] = x[lane]
        ptx.bar_sync(1, 64)
    else:  # the compute warp
        ptx.bar_arrive(1, 64)
        y[lane] = tile[lane]  # expect: race


arrive_is_no_wait[1, 64](np.ones(32, np.float32), np.zeros(32, np.float32))
