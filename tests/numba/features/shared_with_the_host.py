"""A function that the host compiles with `njit` and kernels call, and one that means something else for each type."""

import numpy as np
from numba import cuda, njit, types
from numba.cuda.extending import overload


@njit
def smooth(t):
    return t * t * (3.0 - 2.0 * t)


def size_of(value):
    """The number of values in something."""


@overload(size_of)
def size_of_any(value):
    if isinstance(value, types.Array):
        return lambda value: value.size
    if isinstance(value, types.BaseTuple):
        return lambda value: len(value)
    return lambda value: 1


@cuda.jit
def fade(values, pair):
    i = cuda.grid(1)
    if i < size_of(values):
        values[i] = smooth(values[i]) + size_of(pair) + size_of(i)


x = np.linspace(0, 1, 100)
wanted = np.array([smooth(t) for t in x]) + 3
fade.forall(x.size, 64)(x, (1, 2.5))
assert np.allclose(x, wanted)
# expect: 1 kernel, 1 launch: 1 verified
