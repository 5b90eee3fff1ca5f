"""Deadlock: a CTA of a cooperative grid returns where it has no work, and the others wait for it.

Reported: the class of an early return before `grid.sync()`.
Hardware: hangs.
"""

import numpy as np

from wsemu import cuda


@cuda.jit
def cta_without_work_returns(x, y):
    i = cuda.grid(1)
    if cuda.blockIdx.x * 64 >= x.size:
        return
    y[i] = x[i]
    cuda.cg.this_grid().sync()  # expect: deadlock
    x[i] = y[(i + 64) % x.size]


cta_without_work_returns[4, 64](np.ones(192, np.float32), np.zeros(192, np.float32))
