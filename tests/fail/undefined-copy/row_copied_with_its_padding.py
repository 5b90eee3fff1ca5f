"""Undefined-copy: the padding of a row, which nothing has written, is copied to a second row, where nothing reads it.

Hardware: harmless; the copy holds what was left there.
"""

import numpy as np

from wsemu import cuda


@cuda.jit
def row_copied_with_its_padding(x, y):
    row = cuda.shared.array(32, np.float32)
    copy = cuda.shared.array(32, np.float32)
    t = cuda.threadIdx.x
    if t < 24:
        row[t] = x[t]
    cuda.syncwarp()
    copy[t] = row[t]  # expect: undefined-copy
    if t < 24:
        y[t] = copy[t]


row_copied_with_its_padding[1, 32](np.ones(24, np.float32), np.zeros(24, np.float32))
