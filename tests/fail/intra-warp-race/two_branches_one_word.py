"""Intra-warp race: the two sides of a branch store to one word.

Hardware: since sm_70 either side may run first.
"""

import numpy as np

from wsemu import cuda


@cuda.jit
def two_branches_one_word(y):
    if cuda.threadIdx.x == 0:
        y[0] = 1
    elif cuda.threadIdx.x == 1:
        y[0] = 2  # expect: intra-warp-race


two_branches_one_word[1, 32](np.zeros(1, np.int32))
