"""The fix of `stencil_in_place`: another array for the results."""

import numpy as np

from wsemu import cuda


@cuda.jit
def stencil_in_place(x, y):
    i = cuda.grid(1)
    y[i] = x[max(i - 1, 0)] + x[i]


stencil_in_place[2, 64](np.ones(128, np.float32), np.zeros(128, np.float32))
