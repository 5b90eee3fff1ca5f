"""Misaligned: a 16-byte load at an offset of one word.

Hardware: misaligned address error.
"""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def vector_at_an_odd_word(first, x, y):
    i = 4 * cuda.threadIdx.x
    a, b, c, d = ptx.ld_v4(x, first + i)  # expect: misaligned
    ptx.st_v4(y, i, (a, b, c, d))


vector_at_an_odd_word[1, 32](1, np.ones(132, np.float32), np.zeros(128, np.float32))
