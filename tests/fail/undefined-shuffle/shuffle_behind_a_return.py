"""Undefined shuffle: the lanes without an element return early, and the last lane with one reads the next.

Hardware: the value is undefined; often the reader's own.
"""

import numpy as np

from wsemu import cuda


@cuda.jit
def shuffle_behind_a_return(n, x, y):
    t = cuda.threadIdx.x
    value = x[t]
    if t >= n:
        return
    other = cuda.shfl_xor_sync(0xFFFFFFFF, value, 1)  # expect: undefined-shuffle
    y[t] = value + other


shuffle_behind_a_return[1, 32](7, np.ones(32, np.float32), np.zeros(32, np.float32))
