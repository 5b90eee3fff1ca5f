"""A barrier for the whole grid: the launch is a cooperative one."""

import numpy as np
from numba import cuda


@cuda.jit
def fill(x):
    x[cuda.grid(1)] = 1


@cuda.jit
def sweep(x):
    grid = cuda.cg.this_grid()
    i = cuda.grid(1)
    for _ in range(4):
        left = x[i - 1] if i > 0 else 0
        grid.sync()
        x[i] += left
        grid.sync()


x = cuda.to_device(np.zeros(64, np.int32))
fill[2, 32](x)
sweep[2, 32](x)
assert x[1] == 5
fill[2, 32](x)
# expect: 2 kernels, 3 launches: 3 verified
