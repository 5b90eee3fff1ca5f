"""Deadlock: a warp without work returns before a barrier whose count includes it.

With an explicit count, warps that have exited are still waited for (B8).
Hardware: hangs in every run.
"""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def early_return(n, x, y):
    tile = cuda.shared.array(96, np.float32)
    t = cuda.threadIdx.x
    if t >= n:
        return
    tile[t] = x[t]
    ptx.bar_sync(1, 96)  # expect: deadlock
    y[t] = tile[n - 1 - t]


early_return[1, 96](64, np.ones(64, np.float32), np.zeros(64, np.float32))
