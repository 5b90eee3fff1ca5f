"""The fix of `table_changed_between_launches`: the table is an argument; a global that never changes may stay one."""

import numpy as np

from wsemu import cuda

factors = np.array([np.nan, 2.0, 3.0, 4.0], np.float32)


@cuda.jit
def look_up(y, table):
    t = cuda.threadIdx.x
    y[t] = table[t] * factors[t % 4]


values, table = np.zeros(32, np.float32), np.arange(32, dtype=np.float32)
look_up[1, 32](values, table)
table[:] = 7
look_up[1, 32](values, table)
