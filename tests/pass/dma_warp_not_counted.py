"""The fix of `dma_warp_not_counted`: the count of all three warps."""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def dma_warp_not_counted(x, y):
    tile = cuda.shared.array(64, np.float32)
    t = cuda.threadIdx.x
    if t < 32:  # the DMA warp
        tile[t] = x[t]
        tile[t + 32] = x[t + 32]
        ptx.bar_arrive(1, 96)
    else:  # two compute warps
        ptx.bar_sync(1, 96)
        y[t - 32] = tile[t - 32]


dma_warp_not_counted[1, 96](np.ones(64, np.float32), np.zeros(64, np.float32))
