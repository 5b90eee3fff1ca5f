"""Kernels from a template: text that is executed, one kernel for each operator."""

import numpy as np
from numba import cuda

TEMPLATE = """
@cuda.jit
def {name}(x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] {operator} y[i]
"""


def kernel(name, operator):
    space = {"cuda": cuda}
    exec(TEMPLATE.format(name=name, operator=operator), space)
    return space[name]


x, y = np.arange(50.0), np.arange(1, 51.0)
for name, operator, ufunc in (("plus", "+", np.add), ("over", "/", np.divide), ("to_the", "**", np.power)):
    out = np.zeros(50)
    kernel(name, operator)[1, 64](x, y % 4 + 1, out)
    assert np.allclose(out, ufunc(x, y % 4 + 1))
# expect: 3 kernels, 3 launches: 3 verified
