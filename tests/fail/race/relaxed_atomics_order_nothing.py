"""Race: a warp stores, then adds to a counter; another one adds to the same counter, then loads what was stored.

An atomic without release or acquire orders no other access, whichever of the two comes first.
Hardware: the load gives the old word or the new one.
"""

import numpy as np

from wsemu import cuda


@cuda.jit
def relaxed_atomics_order_nothing(counter, data, y):
    t = cuda.threadIdx.x
    if t < 32:
        data[t] = t
        cuda.atomic.add(counter, 0, 1)
    else:
        cuda.atomic.add(counter, 0, 1)
        y[t - 32] = data[t - 32]  # expect: race


relaxed_atomics_order_nothing[1, 64](np.zeros(1, np.int32), np.zeros(32, np.int32), np.zeros(32, np.int32))
