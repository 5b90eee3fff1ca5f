"""The fix of `counter_read_as_constant`: a plain load, which sees what the barrier orders before it."""

import numpy as np

from wsemu import cuda


@cuda.jit
def counter_read_as_constant(totals, y):
    t = cuda.threadIdx.x
    cuda.atomic.add(totals, t, 1)
    cuda.syncthreads()
    y[t] = totals[t] > 0


counter_read_as_constant[1, 64](np.zeros(64, np.int32), np.zeros(64, np.bool_))
