"""Uncoalesced: each thread walks along its own row, so that the lanes of a load are a row apart.

Hardware: 32 sectors for 128 bytes that are asked for.
"""

import numpy as np

from wsemu import cuda


@cuda.jit
def row_of_each_thread(matrix, y):
    t = cuda.threadIdx.x
    total = np.float32(0)
    for column in range(matrix.shape[1]):
        total += matrix[t, column]  # expect: uncoalesced
    y[t] = total


row_of_each_thread[1, 32](np.ones((32, 64), np.float32), np.zeros(32, np.float32))
