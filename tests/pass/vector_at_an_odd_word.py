"""The fix of `vector_at_an_odd_word`: a multiple of four words."""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def vector_at_an_odd_word(first, x, y):
    i = 4 * cuda.threadIdx.x
    a, b, c, d = ptx.ld_v4(x, first + i)
    ptx.st_v4(y, i, (a, b, c, d))


vector_at_an_odd_word[1, 32](4, np.ones(132, np.float32), np.zeros(128, np.float32))
