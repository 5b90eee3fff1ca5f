"""Incomplete: an element goes to a place that is computed from the numbers that two atomic counters give out.

The program is right: each thread's second number cancels out, whatever it is.
"""

import numpy as np

from wsemu import cuda


@cuda.jit
def address_from_two_atomics(counts, found):
    place = cuda.atomic.add(counts, 0, 1)
    other = cuda.atomic.add(counts, 1, 1)
    found[place + other - other] = cuda.threadIdx.x  # expect: incomplete


address_from_two_atomics[1, 32](np.zeros(2, np.int32), np.zeros(32, np.int64))
