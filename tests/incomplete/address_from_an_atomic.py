"""Incomplete: elements that pass a test are appended to a list whose length is an atomic counter.

The program is right up to the order of the list; each element's place depends on the schedule.
"""

import numpy as np

from wsemu import cuda


@cuda.jit
def address_from_an_atomic(x, length, found):
    i = cuda.grid(1)
    if x[i] > 0:
        place = cuda.atomic.add(length, 0, 1)
        found[place] = i  # expect: incomplete


address_from_an_atomic[1, 64](np.arange(64) % 2, np.zeros(1, np.int32), np.zeros(64, np.int64))
