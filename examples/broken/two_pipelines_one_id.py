"""Barrier recycling: two producer-consumer pairs share one barrier id, so that an arrive of one pair can release the
compute warp of the other."""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def two_pipelines_one_id(x, y):
    tile = cuda.shared.array((2, 32), np.float32)
    lane = cuda.threadIdx.x % 32
    warp = cuda.threadIdx.x // 32
    pair = warp // 2
    if warp % 2 == 0:  # a compute warp
        ptx.bar_sync(1, 64)  # should be barrier 1 + pair
        y[pair * 32 + lane] = tile[pair, lane]
    else:  # its DMA warp
        tile[pair, lane] = x[pair * 32 + lane]
        ptx.bar_arrive(1, 64)


x = np.arange(64, dtype=np.float32)
two_pipelines_one_id[1, 128](x, np.zeros_like(x))
