"""The fix of `vector_into_the_next_array`: the array is as long as its vectors."""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def vector_into_the_next_array(y):
    row = cuda.shared.array(8, np.float32)
    other = cuda.shared.array(6, np.float32)
    t = cuda.threadIdx.x
    if t < 8:
        row[t] = t
    if t < 6:
        other[t] = 10 + t
    cuda.syncthreads()
    if t < 2:
        a, b, c, d = ptx.ld_v4(row, 4 * t)
        y[t] = a + b + c + d


vector_into_the_next_array[1, 32](np.zeros(2, np.float32))
