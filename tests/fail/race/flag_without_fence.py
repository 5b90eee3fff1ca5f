"""Race: a CTA writes its data and then raises an atomic flag, with no fence between; another CTA sees the flag and
reads the data.

Relaxed atomics order nothing but themselves.
Hardware: the flag can become visible before the data; rare on one GPU, real across L1 caches.
"""

import numpy as np

from wsemu import cuda


@cuda.jit
def flag_without_fence(flag, data, y):
    lane = cuda.threadIdx.x
    if cuda.blockIdx.x == 0:
        data[lane] = lane
        cuda.syncwarp()
        if lane == 0:
            cuda.atomic.add(flag, 0, 1)
    else:
        if lane == 0:
            while cuda.atomic.add(flag, 0, 0) == 0:
                pass
        cuda.syncwarp()
        y[lane] = data[lane]  # expect: race


flag_without_fence[2, 32](np.zeros(1, np.int32), np.zeros(32, np.int32), np.zeros(32, np.int32))
