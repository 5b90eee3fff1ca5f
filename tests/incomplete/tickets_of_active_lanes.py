"""Incomplete: one lane of those that run together takes tickets for all of them, and each stores its own.

The program is right; which lanes run together is up to the hardware.
"""

import numpy as np

from wsemu import cuda


@cuda.jit
def tickets_of_active_lanes(x, taken, y):
    i = cuda.grid(1)
    if x[i] > 0:
        mask = cuda.activemask()
        leader = cuda.ffs(mask) - 1
        first = 0
        if cuda.laneid == leader:  # expect: incomplete
            first = cuda.atomic.add(taken, 0, cuda.popc(mask))
        first = cuda.shfl_sync(mask, first, leader)  # expect: incomplete
        y[first + cuda.popc(mask & cuda.lanemask_lt())] = x[i]  # expect: incomplete


x = np.arange(64, dtype=np.int32) % 3
tickets_of_active_lanes[1, 64](x, np.zeros(1, np.int32), np.zeros(64, np.int32))
