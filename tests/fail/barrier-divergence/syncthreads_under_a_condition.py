"""Barrier divergence: `syncthreads` stands under a condition that holds for a part of the last warp.

Reported: llama.cpp 27678.
Hardware: undefined; counts the whole warp here, elsewhere hangs or mixes up the phases.
"""

import numpy as np

from wsemu import cuda


@cuda.jit
def syncthreads_under_a_condition(n, x, y):
    tile = cuda.shared.array(64, np.float32)
    t = cuda.threadIdx.x
    if t < n:
        tile[t] = x[t]
        cuda.syncthreads()  # expect: barrier-divergence
        y[t] = tile[n - 1 - t]


syncthreads_under_a_condition[1, 64](40, np.ones(40, np.float32), np.zeros(40, np.float32))
