"""Race: the 16-byte store of the last lane of one warp covers the first word that another warp reads.

The first warp is meant to write 127 words, and its vectors cover 128.
Hardware: the second warp reads its own word or the first warp's.
"""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def vector_store_over_a_neighbour(x, y):
    tile = cuda.shared.array(160, np.float32)
    t = cuda.threadIdx.x
    for i in range(t, 160, 64):
        tile[i] = 0
    cuda.syncthreads()
    if t < 32:
        ptx.st_v4(tile, 4 * t, (x[t], x[t], x[t], x[t]))  # expect: race
    else:
        y[t - 32] = tile[127 + t - 32]


vector_store_over_a_neighbour[1, 64](np.ones(32, np.float32), np.zeros(32, np.float32))
