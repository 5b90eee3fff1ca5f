"""The same, without the barrier between the stores and the loads."""

import numpy as np

from wsemu import cuda


@cuda.jit
def too_soon(x, y):
    tile = cuda.shared.array(64, np.float32)
    thread = cuda.threadIdx.x
    tile[thread] = x[thread]
    y[thread] = tile[63 - thread]


if __name__ == "__main__":
    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    too_soon[1, 64](x, y)
