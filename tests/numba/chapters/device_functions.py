"""Device functions: called from kernels and from each other, with and without types, inlined, recursive."""

import numpy as np
from numba import cuda


@cuda.jit(device=True)
def lerp(a, b, t):
    return a + t * (b - a)


@cuda.jit("float64(float64, float64, float64, float64)", device=True, inline="always")
def bilinear(low, high, s, t):
    return lerp(low, high, s) * t


@cuda.jit("int64(int64)", device=True)
def triangle(n):
    if n < 1:
        return 0
    return n + triangle(n - 1)


@cuda.jit
def apply(x, sums):
    i = cuda.grid(1)
    if i < x.size:
        x[i] = bilinear(x[i], 10.0, 0.5, 2.0)
    if i < sums.size:
        sums[i] = triangle(i)


x, sums = np.arange(40.0), np.zeros(6, np.int64)
apply[2, 32](x, sums)
assert (x == np.arange(40) + 10).all()
assert sums.tolist() == [0, 1, 3, 6, 10, 15]
assert lerp(0.0, 4.0, 0.25) == 1.0  # and from the host
# expect: 1 kernel, 1 launch: 1 verified
