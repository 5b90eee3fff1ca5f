"""Race: a fence stands where a barrier is needed.

A fence orders the accesses of the thread that executes it; it waits for nobody.
Hardware: the load may come before the other warp has stored.
"""

import numpy as np

from wsemu import cuda


@cuda.jit
def fence_is_no_barrier(x, y):
    tile = cuda.shared.array(64, np.float32)
    t = cuda.threadIdx.x
    tile[t] = 0
    cuda.syncthreads()
    tile[t] = x[t]  # expect: race
    cuda.threadfence_block()
    y[t] = tile[t ^ 32]  # expect: race


fence_is_no_barrier[1, 64](np.ones(64, np.float32), np.zeros(64, np.float32))
