"""Race: one array is passed as two arguments, and two warps store to it by different names.

Hardware: the last writer wins; a compiler that takes the two for different arrays may do worse.
"""

import numpy as np

from wsemu import cuda


@cuda.jit
def one_array_by_two_names(x, y):
    t = cuda.threadIdx.x
    if t < 32:
        x[t] = 1
    else:
        y[t - 32] = 2  # expect: race


array = np.zeros(64, np.int32)
one_array_by_two_names[1, 64](array[:40], array[8:])
