"""The fix of `early_return`: every warp comes to the barrier, and only the work depends on n."""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def early_return(n, x, y):
    tile = cuda.shared.array(96, np.float32)
    t = cuda.threadIdx.x
    if t < n:
        tile[t] = x[t]
    ptx.bar_sync(1, 96)
    if t < n:
        y[t] = tile[n - 1 - t]


early_return[1, 96](64, np.ones(64, np.float32), np.zeros(64, np.float32))
