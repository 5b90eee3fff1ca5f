"""The fix of `shuffle_in_a_branch`: all lanes shuffle, and only the store depends on the condition."""

import numpy as np

from wsemu import cuda


@cuda.jit
def shuffle_in_a_branch(n, x, y):
    t = cuda.threadIdx.x
    other = cuda.shfl_xor_sync(0xFFFFFFFF, x[t], 1)
    if t < n:
        y[t] = other


shuffle_in_a_branch[1, 32](16, np.arange(32, dtype=np.float32), np.zeros(32, np.float32))
