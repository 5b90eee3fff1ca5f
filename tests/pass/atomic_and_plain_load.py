"""The fix of `atomic_and_plain_load`: a barrier between the additions and the load."""

import numpy as np

from wsemu import cuda


@cuda.jit
def atomic_and_plain_load(counter, y):
    t = cuda.threadIdx.x
    if t < 32:
        cuda.atomic.add(counter, 0, 1)
    cuda.syncthreads()
    if t >= 32:
        y[t - 32] = counter[0]


atomic_and_plain_load[1, 64](np.zeros(1, np.int32), np.zeros(32, np.int32))
