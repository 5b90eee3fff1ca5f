"""The fix of `elected_lane_reads_all`: `syncwarp` before lane 0 reads."""

import numpy as np

from wsemu import cuda


@cuda.jit
def elected_lane_reads_all(x, y):
    parts = cuda.shared.array(32, np.float32)
    lane = cuda.threadIdx.x
    parts[lane] = x[lane]
    cuda.syncwarp()
    if lane == 0:
        total = np.float32(0)
        for i in range(32):
            total += parts[i]
        y[0] = total


elected_lane_reads_all[1, 32](np.ones(32, np.float32), np.zeros(1, np.float32))
