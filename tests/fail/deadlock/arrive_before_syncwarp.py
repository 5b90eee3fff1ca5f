"""Deadlock: half of a warp arrives in a branch, and then the whole warp meets in a `syncwarp`.

Hardware: hangs.  The arrive waits until all live lanes of its warp have come to it, and those that went past wait in
the `syncwarp` for the ones at the arrive (B14).
"""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def arrive_before_syncwarp(y):
    lane = cuda.threadIdx.x % 32
    if cuda.threadIdx.x >= 32:
        if lane < 16:
            ptx.barrier_arrive(1, 64)  # expect: deadlock
        cuda.syncwarp()
    else:
        ptx.bar_sync(1, 64)
        y[lane] = 1


arrive_before_syncwarp[1, 64](np.zeros(32, np.float32))
