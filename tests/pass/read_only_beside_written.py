"""No false alarm: one array, of which a launch loads one half through the read-only cache and writes the other."""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def read_only_beside_written(x):
    i = cuda.grid(1)
    x[128 + i] = 2 * ptx.ld_nc(x, i)


read_only_beside_written[2, 64](np.ones(256, np.float32))
