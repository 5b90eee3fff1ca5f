"""The first kernel of the tutorial, with its warning accepted."""

import numpy as np

from wsemu import cuda

TILE = 64


@cuda.jit
def accepted(a, x, y):
    tile = cuda.shared.array(TILE, np.float32)
    thread = cuda.threadIdx.x
    total = np.float32(0)
    for first in range(0, x.size, TILE):
        tile[thread] = x[first + thread]
        cuda.syncthreads()  # the tile is full
        for j in range(TILE):
            element = a[thread, first + j]  # wsemu: ignore[uncoalesced] slow on purpose
            total += element * tile[j]
        cuda.syncthreads()  # nobody needs it any more
    y[thread] = total


a = np.ones((64, 128), np.float32)
x, y = np.arange(128, dtype=np.float32), np.zeros(64, np.float32)
accepted[1, TILE](a, x, y)
