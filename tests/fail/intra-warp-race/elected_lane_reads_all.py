"""Intra-warp race: lane 0 adds up what all lanes stored, with no `syncwarp` between.

Reported: cudnn-frontend PR 426 has the same gap before an elected lane's arrive.
Hardware: lane 0 may run ahead of the stores.
"""

import numpy as np

from wsemu import cuda


@cuda.jit
def elected_lane_reads_all(x, y):
    parts = cuda.shared.array(32, np.float32)
    lane = cuda.threadIdx.x
    parts[lane] = x[lane]
    if lane == 0:
        total = np.float32(0)
        for i in range(32):
            total += parts[i]  # expect: intra-warp-race
        y[0] = total


elected_lane_reads_all[1, 32](np.ones(32, np.float32), np.zeros(1, np.float32))
