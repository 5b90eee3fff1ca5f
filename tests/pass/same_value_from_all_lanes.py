"""No false alarm: all lanes of one instruction store the same value to one word."""

import numpy as np

from wsemu import cuda


@cuda.jit
def same_value_from_all_lanes(y):
    y[cuda.threadIdx.x // 32] = 7


same_value_from_all_lanes[1, 64](np.zeros(2, np.int32))
