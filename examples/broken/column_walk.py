"""Bank conflict: each lane sums a row of a 32 x 32 tile.

So the lanes together read a column, which is in one bank.  The result is correct, but the load takes 32 times as long.
"""

import numpy as np

from wsemu import cuda


@cuda.jit
def column_walk(x, y):
    tile = cuda.shared.array((32, 32), np.float32)
    lane = cuda.threadIdx.x
    for row in range(32):
        tile[row, lane] = x[row, lane]
    cuda.syncthreads()
    acc = np.float32(0)
    for k in range(32):
        acc += tile[lane, k]
    y[lane] = acc


column_walk[1, 32](np.ones((32, 32), np.float32), np.zeros(32, np.float32))
