"""Failed assertion: two threads pop from a stack that is an array and its size.  Between one thread's read of the size
and its update, the other one pops, and both get the same element.

A test of such a structure asserts its invariant, and the launch is run in all interleavings of its atomics.
"""

import numpy as np

from wsemu import cuda


@cuda.jit
def pop_twice(size, taken):
    top = cuda.atomic.add(size, 0, 0)
    if top > 0:
        before = cuda.atomic.add(taken, top - 1, 1)
        assert before == 0  # expect: failed-assertion
        cuda.atomic.exch(size, 0, top - 1)


if __name__ == "__main__":
    pop_twice[2, 1](np.full(1, 2, np.int32), np.zeros(2, np.int32))
