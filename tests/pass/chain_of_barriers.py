"""No false alarm: warp 0 hands a tile to warp 2 through warp 1; order is transitive over two barriers."""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def chain_of_barriers(x, y):
    tile = cuda.shared.array(32, np.float32)
    lane = cuda.threadIdx.x % 32
    warp = cuda.threadIdx.x // 32
    if warp == 0:
        tile[lane] = x[lane]
        ptx.bar_arrive(1, 64)
    elif warp == 1:
        ptx.bar_sync(1, 64)
        ptx.bar_arrive(2, 64)
    else:
        ptx.bar_sync(2, 64)
        y[lane] = tile[31 - lane]


chain_of_barriers[1, 96](np.ones(32, np.float32), np.zeros(32, np.float32))
