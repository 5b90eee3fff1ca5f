"""Read-only written: a table is loaded through the read-only cache by the kernel that scales it."""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def scaled(table, y):
    i = cuda.grid(1)
    y[i] = ptx.ld_nc(table, i)  # should be table[i]
    table[i] *= 2


scaled[2, 64](np.ones(128, np.float32), np.zeros(128, np.float32))
