"""Race: four CTAs write the same elements of a global array.

Reported: verification.md's peers on this kernel: racecheck and synccheck find nothing, for they look at shared memory.
Hardware: the last writer wins, another one in each run.
"""

import numpy as np

from wsemu import cuda


@cuda.jit
def ctas_write_one_array(y):
    y[cuda.threadIdx.x] = cuda.blockIdx.x  # expect: race


ctas_write_one_array[4, 64](np.zeros(64, np.int32))
