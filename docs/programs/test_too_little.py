"""A test that looks at too little."""

import numpy as np

from wsemu import cuda


@cuda.jit
def reversed_(x, y, n):
    tile = cuda.shared.array(64, np.float32)
    t = cuda.threadIdx.x
    if t < n:
        tile[t] = x[t]
    cuda.syncthreads()
    if t < n:
        y[t] = tile[n - 1 - t]


def test_it():
    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    reversed_[1, 64](x, y, 40)
    assert y.any()
