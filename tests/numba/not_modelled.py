"""A dict in a kernel, which is not modelled: the launch is not decided, and the others are."""

import numpy as np
from numba import cuda


@cuda.jit
def fill(x):
    x[cuda.grid(1)] = 1


@cuda.jit
def sweep(x):
    weights = {0: 1, 1: 2}
    x[cuda.grid(1)] += weights[0]


x = cuda.to_device(np.zeros(64, np.int32))
fill[2, 32](x)
sweep[2, 32](x)
assert x[0] == 1
fill[2, 32](x)
# expect: 2 kernels, 3 launches: 2 verified, 1 incomplete (a dict in a kernel)
