"""Deadlock: the DMA warp waits until the buffer is empty, the compute warp until it is full, and neither starts."""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def both_wait_first(x, y):
    tile = cuda.shared.array(32, np.float32)
    lane = cuda.threadIdx.x % 32
    if cuda.threadIdx.x >= 32:  # the DMA warp
        ptx.bar_sync(3, 64)
        tile[lane] = x[lane]
        ptx.bar_arrive(2, 64)

    else:  # the compute warp
        ptx.bar_sync(2, 64)
        y[lane] = tile[lane]
        ptx.bar_arrive(3, 64)


x = np.arange(32, dtype=np.float32)
both_wait_first[1, 64](x, np.zeros_like(x))
