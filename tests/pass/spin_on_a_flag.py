"""No false alarm: a CTA waits in a loop for a flag that another CTA raises, with fences on both sides.

How often the loop runs depends on the schedule: what only reads again waits until somebody has written.
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
            while cuda.atomic.add(flag, 0, 0) == 0:
                pass
        cuda.syncwarp()
        cuda.threadfence()
        y[lane] = data[lane]


spin_on_a_flag[2, 32](np.zeros(1, np.int32), np.zeros(32, np.int32), np.zeros(32, np.int32))
