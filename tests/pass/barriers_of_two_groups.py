"""No false alarm: two groups of warps, each with a barrier of its own, then all together, round after round."""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def barriers_of_two_groups(x, y):
    tile = cuda.shared.array(128, np.float32)
    t = cuda.threadIdx.x
    group = t // 64
    for _ in range(3):
        tile[t] = x[t]
        ptx.bar_sync(1 + group, 64)
        y[t] += tile[group * 64 + 63 - t % 64]
        cuda.syncthreads()
        y[t] += tile[127 - t]
        cuda.syncthreads()


barriers_of_two_groups[1, 128](np.ones(128, np.float32), np.zeros(128, np.float32))
