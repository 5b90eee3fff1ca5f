"""Functions of numbers and of arrays that Numba spreads over whole arrays, with `target="cuda"`."""

import math

import numpy as np
from numba import float64, guvectorize, vectorize


@vectorize([float64(float64, float64)], target="cuda")
def distance(x, y):
    return math.sqrt(x * x + y * y)


@guvectorize(["void(float64[:], int64, float64[:])"], "(n),()->(n)", target="cuda")
def moving_mean(values, width, means):
    for i in range(values.shape[0]):
        first = max(0, i - width + 1)
        total = 0.0
        for j in range(first, i + 1):
            total += values[j]
        means[i] = total / (i + 1 - first)


x = np.linspace(-1, 1, 200)
assert np.allclose(distance(x, x[::-1]), np.hypot(x, x[::-1]))
assert np.allclose(distance(x[:, None], np.ones(3)), np.hypot(x[:, None], 1))

rows = np.arange(12.0).reshape(3, 4)
assert moving_mean(rows, 2).tolist() == [[first, first + 0.5, first + 1.5, first + 2.5] for first in (0, 4, 8)]
# expect: 2 kernels, 3 launches: 3 verified
