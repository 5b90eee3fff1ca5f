"""Debugging: exceptions and assertions of kernels on the host, prints, fast mathematics."""

import math

import numpy as np
from numba import cuda


@cuda.jit(debug=True, opt=False)
def checked(x):
    i = cuda.grid(1)
    if x[i] < 0:
        raise ValueError("below zero")
    x[i] = math.sqrt(x[i])


@cuda.jit
def talking(x):
    if cuda.grid(1) == 3:
        print("third:", x[3])


@cuda.jit(fastmath=True)
def fast(x):
    i = cuda.grid(1)
    x[i] = math.sin(x[i]) / math.cos(x[i])


x = np.ones(32)
checked[1, 32](x)
x[5] = -4
said = ""
try:
    checked[1, 32](x)
except ValueError as error:
    said = str(error)
assert "below zero" in said
assert "tid=[0, 0, 5]" in said  # z, y, x
talking[1, 32](x)
y = np.linspace(0, 1, 32, dtype=np.float32)
fast[1, 32](y)
assert np.allclose(y, np.tan(np.linspace(0, 1, 32)), rtol=1e-5)
# expect: 3 kernels, 4 launches: 4 verified
