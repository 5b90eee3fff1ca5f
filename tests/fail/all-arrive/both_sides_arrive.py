"""All-arrive: both sides arrive and nobody waits, so that the generation releases nobody (B10).

Hardware: goes on; the tile may be read before it is written.
"""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def both_sides_arrive(x, y):
    tile = cuda.shared.array(32, np.float32)
    lane = cuda.threadIdx.x % 32
    if cuda.threadIdx.x < 32:  # the DMA warp
        tile[lane] = x[lane]
        ptx.bar_arrive(1, 64)
    else:  # the compute warp
        ptx.bar_arrive(1, 64)  # expect: all-arrive
        y[lane] = tile[lane]  # expect: race


both_sides_arrive[1, 64](np.ones(32, np.float32), np.zeros(32, np.float32))
