"""Out of bounds: the left halo of the first tile has the index -1.

Reported: bugs.md's list of complaints; Numba's simulator wraps such an index in silence.
Hardware: Numba's code reads the last element, CUDA C++ reads before the array.
"""

import numpy as np

from wsemu import cuda


@cuda.jit
def halo_before_the_start(x, y):
    i = cuda.grid(1)
    y[i] = x[i - 1] + x[i]  # expect: out-of-bounds


halo_before_the_start[1, 32](np.ones(32, np.float32), np.zeros(32, np.float32))
