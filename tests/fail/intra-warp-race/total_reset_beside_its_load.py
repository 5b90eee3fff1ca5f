"""Intra-warp race: after a sum by atomics one lane loads the total and another lane clears it.

Hardware: the lanes go on independently, so that the load can come after the store and give 0.
"""

import numpy as np

from wsemu import cuda


@cuda.jit
def total_reset_beside_its_load(x, y):
    total = cuda.shared.array(1, np.int32)
    t = cuda.threadIdx.x
    if t == 0:
        total[0] = 0
    cuda.syncthreads()
    cuda.atomic.add(total, 0, x[t])
    cuda.syncthreads()
    if t == 1:
        y[0] = total[0]
    if t == 0:
        total[0] = 0  # expect: intra-warp-race


total_reset_beside_its_load[1, 32](np.ones(32, np.int32), np.zeros(1, np.int32))
