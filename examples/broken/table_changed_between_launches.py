"""Frozen array: the host changes a global table between two launches, and the kernel still reads the first values.

Hardware: no error; the results are those of the old table.
"""

import numpy as np

from wsemu import cuda

table = np.arange(32, dtype=np.float32)


@cuda.jit
def look_up(y):
    t = cuda.threadIdx.x
    y[t] = table[t]  # expect: frozen-array


values = np.zeros(32, np.float32)
look_up[1, 32](values)
table[:] = 7
look_up[1, 32](values)
