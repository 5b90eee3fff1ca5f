"""Writing kernels: positions in a grid of one and of two dimensions, declared types, `forall`."""

import math

import numpy as np
from numba import cuda, float32, int32, void


@cuda.jit
def shift_each(values, by):
    thread, cta, width = cuda.threadIdx.x, cuda.blockIdx.x, cuda.blockDim.x
    position = thread + cta * width
    if position < values.size:
        values[position] += by


@cuda.jit
def shift_each_in_short(values, by):
    position = cuda.grid(1)
    if position < values.size:
        values[position] += by


@cuda.jit
def shift_plane(plane, by):
    row, column = cuda.grid(2)
    if row < plane.shape[0] and column < plane.shape[1]:
        plane[row, column] += by


@cuda.jit(void(int32[:], float32[:]))
def squares(numbers, roots):
    for i in range(cuda.grid(1), roots.size, cuda.gridsize(1)):
        numbers[i] = int32(roots[i] * roots[i])


values = np.arange(100.0)
threads = 32
shift_each[math.ceil(values.size / threads), threads](values, 1)
shift_each_in_short.forall(values.size)(values, 1)
assert (values == np.arange(100) + 2).all()

plane = np.zeros((33, 17))
block = (16, 16)
grid = tuple(math.ceil(extent / width) for extent, width in zip(plane.shape, block, strict=False))
shift_plane[grid, block](plane, 4)
assert (plane == 4).all()

numbers = np.zeros(50, np.int32)
squares[2, 16](numbers, np.arange(50, dtype=np.float32))
assert (numbers == np.arange(50) ** 2).all()
# expect: 4 kernels, 4 launches: 4 verified
