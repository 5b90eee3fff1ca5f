"""Race: one warp reads a counter with a plain load and then adds to it, while another one adds.

Hardware: whether the load sees the other warp's addition is left to chance; that both add atomically does not help.
"""

import numpy as np

from wsemu import cuda


@cuda.jit
def read_before_own_atomic(counter, y):
    t = cuda.threadIdx.x
    if t == 0:
        y[0] = counter[0]
        cuda.atomic.add(counter, 0, 1)
    if t == 32:
        cuda.atomic.add(counter, 0, 1)  # expect: race


read_before_own_atomic[1, 64](np.zeros(1, np.int32), np.zeros(1, np.int32))
