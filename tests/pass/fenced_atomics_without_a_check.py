"""The fix of `fenced_atomics_without_a_check`: block 1 waits until all of block 0 has come."""

import numpy as np

from wsemu import cuda


@cuda.jit
def fenced_atomics_without_a_check(counter, data, y):
    lane = cuda.threadIdx.x
    if cuda.blockIdx.x == 0:
        data[lane] = lane
        cuda.threadfence()
        cuda.syncwarp()
        if lane == 0:
            cuda.atomic.add(counter, 0, 1)
    else:
        if lane == 0:
            while cuda.atomic.add(counter, 0, 0) == 0:
                pass
        cuda.syncwarp()
        cuda.threadfence()
        y[lane] = data[lane]


fenced_atomics_without_a_check[2, 32](np.zeros(1, np.int32), np.zeros(32, np.int32), np.zeros(32, np.int32))
