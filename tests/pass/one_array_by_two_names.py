"""The fix of `one_array_by_two_names`: parts of the array that do not overlap."""

import numpy as np

from wsemu import cuda


@cuda.jit
def one_array_by_two_names(x, y):
    t = cuda.threadIdx.x
    if t < 32:
        x[t] = 1
    else:
        y[t - 32] = 2


array = np.zeros(64, np.int32)
one_array_by_two_names[1, 64](array[:32], array[32:])
