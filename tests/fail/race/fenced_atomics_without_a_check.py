"""Race: fences and atomics on both sides, but nobody looks whether the other side was first.

In the order of this run the store happens before the load; in another one the two race.
Hardware: loads old values where block 1 runs first.
"""

import numpy as np

from wsemu import cuda


@cuda.jit
def fenced_atomics_without_a_check(counter, data, y):
    lane = cuda.threadIdx.x
    if cuda.blockIdx.x == 0:
        data[lane] = lane
        cuda.threadfence()
        cuda.atomic.add(counter, 0, 1)
    else:
        cuda.atomic.add(counter, 0, 1)
        cuda.threadfence()
        y[lane] = data[lane]  # expect: race


fenced_atomics_without_a_check[2, 32](np.zeros(1, np.int32), np.zeros(32, np.int32), np.zeros(32, np.int32))
