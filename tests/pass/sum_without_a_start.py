"""The fix of `sum_without_a_start`: one thread stores zero, and a barrier orders it before the additions."""

import numpy as np

from wsemu import cuda


@cuda.jit
def sum_without_a_start(x, y):
    total = cuda.shared.array(1, np.int32)
    t = cuda.threadIdx.x
    if t == 0:
        total[0] = 0
    cuda.syncthreads()
    cuda.atomic.add(total, 0, x[t])
    cuda.syncthreads()
    if t == 0:
        y[0] = total[0]


sum_without_a_start[1, 64](np.ones(64, np.int32), np.zeros(1, np.int32))
