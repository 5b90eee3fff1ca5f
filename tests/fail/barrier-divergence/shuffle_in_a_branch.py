"""Barrier divergence: a shuffle names all 32 lanes and stands under a condition that half of them meet.

Hardware: undefined; the half waits for ever, or reads registers of lanes that are elsewhere.
"""

import numpy as np

from wsemu import cuda


@cuda.jit
def shuffle_in_a_branch(n, x, y):
    t = cuda.threadIdx.x
    if t < n:
        y[t] = cuda.shfl_xor_sync(0xFFFFFFFF, x[t], 1)  # expect: barrier-divergence


shuffle_in_a_branch[1, 32](16, np.arange(32, dtype=np.float32), np.zeros(32, np.float32))
