"""Bank conflict: complex numbers kept as pairs of words, the two parts stored one by one.

Hardware: two wavefronts for each store and load: the even banks, or the odd ones, twice.
"""

import numpy as np

from wsemu import cuda


@cuda.jit
def pairs_of_words(x, y):
    pairs = cuda.shared.array(64, np.float32)
    lane = cuda.threadIdx.x
    for i in range(16):
        pairs[2 * lane] = x[i, lane]  # expect: bank-conflict
        pairs[2 * lane + 1] = 0  # expect: bank-conflict
        y[i, lane] = pairs[2 * lane] + pairs[2 * lane + 1]  # expect: bank-conflict


pairs_of_words[1, 32](np.ones((16, 32), np.float32), np.zeros((16, 32), np.float32))
