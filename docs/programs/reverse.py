"""Two warps reverse 64 numbers through shared memory."""

import numpy as np

from wsemu import cuda


@cuda.jit
def reverse(x, y):
    tile = cuda.shared.array(64, np.float32)
    thread = cuda.threadIdx.x
    tile[thread] = x[thread]
    cuda.syncthreads()
    y[thread] = tile[63 - thread]


if __name__ == "__main__":
    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    reverse[1, 64](x, y)
