"""The fix of `total_reset_beside_its_load`: a `syncwarp` between the load and the store."""

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
    cuda.syncwarp()
    if t == 0:
        total[0] = 0


total_reset_beside_its_load[1, 32](np.ones(32, np.int32), np.zeros(1, np.int32))
