"""The fix of `row_of_each_thread`: the matrix lies in memory column by column."""

import numpy as np

from wsemu import cuda


@cuda.jit
def row_of_each_thread(matrix, y):
    t = cuda.threadIdx.x
    total = np.float32(0)
    for column in range(matrix.shape[1]):
        total += matrix[t, column]
    y[t] = total


row_of_each_thread[1, 32](np.ones((32, 64), np.float32, order="F"), np.zeros(32, np.float32))
