"""The fix of `relaxed_atomics_order_nothing`: a named barrier between the store and the load; the counter
only counts."""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def relaxed_atomics_order_nothing(counter, data, y):
    t = cuda.threadIdx.x
    if t < 32:
        data[t] = t
        cuda.atomic.add(counter, 0, 1)
        ptx.bar_arrive(1, 64)
    else:
        cuda.atomic.add(counter, 0, 1)
        ptx.bar_sync(1, 64)
        y[t - 32] = data[t - 32]


relaxed_atomics_order_nothing[1, 64](np.zeros(1, np.int32), np.zeros(32, np.int32), np.zeros(32, np.int32))
