"""Uninitialized read: a shared counter is added to atomically, and nothing sets it to zero.

Hardware: the sum begins with whatever an earlier CTA left there.
"""

import numpy as np

from wsemu import cuda


@cuda.jit
def sum_without_a_start(x, y):
    total = cuda.shared.array(1, np.int32)
    t = cuda.threadIdx.x
    cuda.atomic.add(total, 0, x[t])  # expect: uninitialized-read
    cuda.syncthreads()
    if t == 0:
        y[0] = total[0]


sum_without_a_start[1, 64](np.ones(64, np.int32), np.zeros(1, np.int32))
