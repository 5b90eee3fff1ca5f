"""No false alarm: a butterfly sum without `syncwarp`, checked for GPUs whose warps run in lockstep (before sm_70)."""

import numpy as np

import wsemu
from wsemu import cuda


@cuda.jit
def butterfly_in_lockstep(x, y):
    sums = cuda.shared.array(32, np.float32)
    lane = cuda.threadIdx.x
    total = x[lane]
    for step in (16, 8, 4, 2, 1):
        sums[lane] = total
        total += sums[lane ^ step]
    y[lane] = total


wsemu.check(butterfly_in_lockstep, 1, 32, (np.ones(32, np.float32), np.zeros(32, np.float32)), lockstep=True)
