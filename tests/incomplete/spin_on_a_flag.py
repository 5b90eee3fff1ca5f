"""Incomplete: a CTA waits in a loop for a flag that another CTA raises, with fences on both sides.

The program is right, if both CTAs are resident.  How often the loop runs depends on the schedule, and so one run proves
nothing about the others.
"""

import numpy as np

from wsemu import cuda


@cuda.jit
def spin_on_a_flag(flag, data, y):
    lane = cuda.threadIdx.x
    if cuda.blockIdx.x == 0:
        data[lane] = lane
        cuda.threadfence()
        cuda.syncwarp()
        if lane == 0:
            cuda.atomic.add(flag, 0, 1)
    else:
        if lane == 0:
            while cuda.atomic.add(flag, 0, 0) == 0:  # expect: incomplete
                pass
        cuda.syncwarp()
        cuda.threadfence()
        y[lane] = data[lane]


spin_on_a_flag[2, 32](np.zeros(1, np.int32), np.zeros(32, np.int32), np.zeros(32, np.int32))
