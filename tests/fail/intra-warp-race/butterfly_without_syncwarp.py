"""Intra-warp race: a butterfly sum over a warp in shared memory, as it was written before sm_70.

Hardware: right where the lanes of a warp run in lockstep, up to sm_62; since then steps may overlap.
"""

import numpy as np

from wsemu import cuda


@cuda.jit
def butterfly_without_syncwarp(x, y):
    sums = cuda.shared.array(32, np.float32)
    lane = cuda.threadIdx.x
    total = x[lane]
    for step in (16, 8, 4, 2, 1):
        sums[lane] = total  # expect: intra-warp-race
        total += sums[lane ^ step]  # expect: intra-warp-race
    y[lane] = total


butterfly_without_syncwarp[1, 32](np.ones(32, np.float32), np.zeros(32, np.float32))
