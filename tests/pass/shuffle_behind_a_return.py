"""The fix of `shuffle_behind_a_return`: all lanes shuffle, and those with an element store."""

import numpy as np

from wsemu import cuda


@cuda.jit
def shuffle_behind_a_return(n, x, y):
    t = cuda.threadIdx.x
    value = x[t]
    other = cuda.shfl_xor_sync(0xFFFFFFFF, value, 1)
    if t < n:
        y[t] = value + other


shuffle_behind_a_return[1, 32](7, np.ones(32, np.float32), np.zeros(32, np.float32))
