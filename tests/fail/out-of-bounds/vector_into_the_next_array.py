"""Out of bounds: the last vector of a row begins inside a shared array and ends in the one behind it.

Hardware: the load gives words of the next array; nothing faults.
"""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def vector_into_the_next_array(y):
    row = cuda.shared.array(6, np.float32)
    other = cuda.shared.array(6, np.float32)
    t = cuda.threadIdx.x
    if t < 6:
        row[t] = t
        other[t] = 10 + t
    cuda.syncthreads()
    if t < 2:
        a, b, c, d = ptx.ld_v4(row, 4 * t)  # expect: out-of-bounds
        y[t] = a + b + c + d


vector_into_the_next_array[1, 32](np.zeros(2, np.float32))
