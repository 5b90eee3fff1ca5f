"""Same value store: every thread stores the scalar that all of them have computed.

Hardware: the value is there, whoever stores last.
"""

import numpy as np

from wsemu import cuda


@cuda.jit
def scalar_stored_by_all(x, y):
    scale = cuda.shared.array(1, np.float32)
    t = cuda.threadIdx.x
    scale[0] = x[5]  # expect: same-value-store
    cuda.syncthreads()
    y[t] = x[t] * scale[0]


scalar_stored_by_all[1, 96](np.arange(96, dtype=np.float32), np.zeros(96, np.float32))
