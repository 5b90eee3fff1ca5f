"""Bank conflict: a transpose through a tile of 32 x 32 words reads its columns, which lie in one bank each.

Hardware: 32 wavefronts for one load.
"""

import numpy as np

from wsemu import cuda


@cuda.jit
def transpose_through_a_tile(x, y):
    tile = cuda.shared.array((32, 32), np.float32)
    lane = cuda.threadIdx.x
    for row in range(32):
        tile[row, lane] = x[row, lane]
    cuda.syncwarp()
    for row in range(32):
        y[row, lane] = tile[lane, row]  # expect: bank-conflict


transpose_through_a_tile[1, 32](np.ones((32, 32), np.float32), np.zeros((32, 32), np.float32))
