"""Race: CTAs of a cooperative grid meet once a step, where two meetings are needed.

Reported: the class of a missing `grid.sync()`.
Hardware: not measured.
"""

import numpy as np

from wsemu import cuda


@cuda.jit
def one_meeting_a_step(x, y):
    grid = cuda.cg.this_grid()
    i = cuda.grid(1)
    for _ in range(2):
        y[i] = x[(i + 64) % x.size]  # expect: race
        grid.sync()
        x[i] = y[i]  # expect: race


one_meeting_a_step[4, 64](np.ones(256, np.float32), np.zeros(256, np.float32))
