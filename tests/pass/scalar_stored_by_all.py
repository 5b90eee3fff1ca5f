"""The fix of `scalar_stored_by_all`: one thread stores the scalar."""

import numpy as np

from wsemu import cuda


@cuda.jit
def scalar_stored_by_all(x, y):
    scale = cuda.shared.array(1, np.float32)
    t = cuda.threadIdx.x
    if t == 0:
        scale[0] = x[5]
    cuda.syncthreads()
    y[t] = x[t] * scale[0]


scalar_stored_by_all[1, 96](np.arange(96, dtype=np.float32), np.zeros(96, np.float32))
