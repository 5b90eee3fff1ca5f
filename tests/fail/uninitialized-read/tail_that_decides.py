"""Uninitialized-read: a branch depends on the tail of a row that nothing has written.

Hardware: nothing is raised; the branch goes either way.
"""

import numpy as np

from wsemu import cuda


@cuda.jit
def tail_that_decides(x, y):
    row = cuda.shared.array(32, np.float32)
    t = cuda.threadIdx.x
    if t < 24:
        row[t] = x[t]
    cuda.syncwarp()
    if row[t] > 0:  # expect: uninitialized-read
        y[t] = 1


tail_that_decides[1, 32](np.ones(24, np.float32), np.zeros(32, np.float32))
