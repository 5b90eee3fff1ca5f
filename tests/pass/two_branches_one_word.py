"""The fix of `two_branches_one_word`: a word for each side."""

import numpy as np

from wsemu import cuda


@cuda.jit
def two_branches_one_word(y):
    if cuda.threadIdx.x == 0:
        y[0] = 1
    elif cuda.threadIdx.x == 1:
        y[1] = 2


two_branches_one_word[1, 32](np.zeros(2, np.int32))
