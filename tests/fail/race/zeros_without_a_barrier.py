"""Race: one thread clears a tile by a bulk store, and all read it without a barrier.

Reported: tilelang 2699.
Hardware: old or mixed values, now and then.
"""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def zeros_without_a_barrier(y):
    tile = cuda.shared.array(64, np.float32, 16)
    t = cuda.threadIdx.x
    if t == 0:
        ptx.st_bulk(tile, 0, 256)
    y[t] = tile[t]  # expect: intra-warp-race, race


zeros_without_a_barrier[1, 64](np.zeros(64, np.float32))
