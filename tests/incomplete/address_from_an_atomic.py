"""Incomplete: elements that pass a test are appended to a list whose length is an atomic counter, and which has no room
for all of them.

The program is right up to which elements find room; whether one does depends on the schedule.
"""

import numpy as np

from wsemu import cuda


@cuda.jit
def address_from_an_atomic(x, length, found):
    i = cuda.grid(1)
    if x[i] > 0:
        place = cuda.atomic.add(length, 0, 1)
        if place < found.shape[0]:  # expect: incomplete
            found[place] = i


address_from_an_atomic[1, 16](np.arange(16) % 2, np.zeros(1, np.int32), np.zeros(4, np.int64))
