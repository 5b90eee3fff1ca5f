"""Undefined shuffle: a warp sums a row of 20 elements, after its other 12 lanes have returned."""

import numpy as np

from wsemu import cuda


@cuda.jit
def last_lane_alone(x, y):
    lane = cuda.threadIdx.x
    total = x[lane] if lane < x.size else np.float32(0)
    if lane >= x.size:
        return  # should continue with its zero
    for distance in (16, 8, 4, 2, 1):
        total += cuda.shfl_down_sync(0xFFFFFFFF, total, distance)
    if lane == 0:
        y[0] = total


last_lane_alone[1, 32](np.ones(20, np.float32), np.zeros(1, np.float32))
