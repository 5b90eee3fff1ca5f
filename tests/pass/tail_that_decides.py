"""The fix of `tail_that_decides`: the branch looks at what was written."""

import numpy as np

from wsemu import cuda


@cuda.jit
def tail_that_decides(x, y):
    row = cuda.shared.array(32, np.float32)
    t = cuda.threadIdx.x
    if t < 24:
        row[t] = x[t]
    cuda.syncwarp()
    if t < 24 and row[t] > 0:
        y[t] = 1


tail_that_decides[1, 32](np.ones(24, np.float32), np.zeros(32, np.float32))
