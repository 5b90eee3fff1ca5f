"""Undefined-copy: the uninitialized padding of a row is copied to another row, where nothing reads it."""

import numpy as np

from wsemu import cuda


@cuda.jit
def padding_copied(x, y):
    row = cuda.shared.array(32, np.float32)
    copy = cuda.shared.array(32, np.float32)
    t = cuda.threadIdx.x
    if t < 24:
        row[t] = x[t]
    cuda.syncwarp()
    copy[t] = row[t]
    if t < 24:
        y[t] = copy[t]


padding_copied[1, 32](np.ones(24, np.float32), np.zeros(24, np.float32))
