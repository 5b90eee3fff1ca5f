"""Atomic operations, in one dimension and in three."""

import numpy as np
from numba import cuda


@cuda.jit
def largest(result, values):
    i = cuda.grid(1)
    if i < values.size:
        cuda.atomic.max(result, 0, values[i])


@cuda.jit
def largest_of_a_cube(result, values):
    i, j, k = cuda.grid(3)
    if i < values.shape[0] and j < values.shape[1] and k < values.shape[2]:
        cuda.atomic.max(result, (0, 1, 2), values[i, j, k])


@cuda.jit
def count_below(limit, values, count):
    i = cuda.grid(1)
    if i < values.size and values[i] < limit:
        cuda.atomic.add(count, 0, 1)


rng = np.random.default_rng(3)
values, result, count = rng.random(1024), np.zeros(1), np.zeros(1, np.int32)
largest[16, 64](result, values)
assert result[0] == values.max()
count_below[16, 64](0.5, values, count)
assert count[0] == (values < 0.5).sum()
cube, corner = rng.random((10, 10, 10)), np.zeros((3, 3, 3))
largest_of_a_cube[(2, 2, 2), (5, 5, 5)](corner, cube)
assert corner[0, 1, 2] == cube.max()
# expect: 3 kernels, 3 launches: 3 verified
