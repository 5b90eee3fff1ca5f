"""The fix of `aligned_barrier_in_two_branches`: one barrier before the branch."""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def aligned_barrier_in_two_branches(x, y):
    tile = cuda.shared.array(64, np.float32)
    t = cuda.threadIdx.x
    scale = np.float32(1)
    tile[t] = x[t]
    ptx.bar_sync(1, 64)
    if t % 32 < 16:
        scale = np.float32(2)
    y[t] = scale * tile[63 - t]


aligned_barrier_in_two_branches[1, 64](np.ones(64, np.float32), np.zeros(64, np.float32))
