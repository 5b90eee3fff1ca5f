"""The fix of `atomics_of_two_widths`: both add to the whole counter."""

import numpy as np

from wsemu import cuda


@cuda.jit
def atomics_of_two_widths(counter):
    t = cuda.threadIdx.x
    if t == 0:
        cuda.atomic.add(counter, 0, 1)
    if t == 32:
        cuda.atomic.add(counter, 0, 1)


atomics_of_two_widths[1, 64](np.zeros(1, np.uint64))
