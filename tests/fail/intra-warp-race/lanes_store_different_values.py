"""Intra-warp race: every lane stores its own number to one word.

Hardware: one of the lanes wins; which one is not defined.
"""

import numpy as np

from wsemu import cuda


@cuda.jit
def lanes_store_different_values(y):
    y[0] = cuda.threadIdx.x  # expect: intra-warp-race


lanes_store_different_values[1, 32](np.zeros(1, np.int32))
