"""Race: one warp adds to a counter atomically while another reads it with a plain load.

Hardware: the load gives 0 or 32 or anything between, and a compiler may keep an old value in a register.
"""

import numpy as np

from wsemu import cuda


@cuda.jit
def atomic_and_plain_load(counter, y):
    t = cuda.threadIdx.x
    if t < 32:
        cuda.atomic.add(counter, 0, 1)
    else:
        y[t - 32] = counter[0]  # expect: race


atomic_and_plain_load[1, 64](np.zeros(1, np.int32), np.zeros(32, np.int32))
