"""No false alarm: elements that pass a test are appended to a list whose length is an atomic counter, and which has no
room for all of them.  Which ones find room depends on the schedule.
"""

import numpy as np

from wsemu import cuda


@cuda.jit
def list_with_a_limit(x, length, found):
    i = cuda.grid(1)
    if x[i] > 0:
        place = cuda.atomic.add(length, 0, 1)
        if place < found.shape[0]:
            found[place] = i


list_with_a_limit[1, 16](np.arange(16) % 2, np.zeros(1, np.int32), np.zeros(4, np.int64))
