"""Race: one warp adds to a 64-bit counter, another one to its lower half.

Hardware: atomics are atomic with respect to each other when they cover the same bytes: the narrow addition can be lost.
"""

import numpy as np

from wsemu import cuda


@cuda.jit
def atomics_of_two_widths(counter, half):
    t = cuda.threadIdx.x
    if t == 0:
        cuda.atomic.add(counter, 0, 1)
    elif t == 32:
        cuda.atomic.add(half, 0, 1)  # expect: race


words = np.zeros(1, np.uint64)
atomics_of_two_widths[1, 64](words, words.view(np.uint32))
