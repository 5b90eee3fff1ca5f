"""The fix of `lanes_store_different_values`: one lane stores."""

import numpy as np

from wsemu import cuda


@cuda.jit
def lanes_store_different_values(y):
    if cuda.threadIdx.x == 31:
        y[0] = cuda.threadIdx.x


lanes_store_different_values[1, 32](np.zeros(1, np.int32))
