"""Count mismatch: the DMA warp counts the compute warps alone, the compute warps count the DMA warp too.

The first operation of a generation fixes its count (B5).
Hardware: illegal instruction.
"""

import numpy as np

from wsemu import cuda, ptx

COMPUTE_THREADS = 64


@cuda.jit
def counts_differ(x, y):
    tile = cuda.shared.array(64, np.float32)
    t = cuda.threadIdx.x
    if t < COMPUTE_THREADS:
        ptx.bar_sync(1, COMPUTE_THREADS + 32)
        y[t] = tile[t]
    else:
        tile[t - 64] = x[t - 64]
        tile[t - 32] = x[t - 32]
        ptx.bar_arrive(1, COMPUTE_THREADS)  # expect: count-mismatch


counts_differ[1, 96](np.ones(64, np.float32), np.zeros(64, np.float32))
