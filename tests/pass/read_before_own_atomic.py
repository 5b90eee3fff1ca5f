"""The fix of `read_before_own_atomic`: a barrier between the load and the additions."""

import numpy as np

from wsemu import cuda


@cuda.jit
def read_before_own_atomic(counter, y):
    t = cuda.threadIdx.x
    if t == 0:
        y[0] = counter[0]
    cuda.syncthreads()
    if t == 0:
        cuda.atomic.add(counter, 0, 1)
    if t == 32:
        cuda.atomic.add(counter, 0, 1)


read_before_own_atomic[1, 64](np.zeros(1, np.int32), np.zeros(1, np.int32))
