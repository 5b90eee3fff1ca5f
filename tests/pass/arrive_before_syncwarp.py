"""The fix of `arrive_before_syncwarp`: all lanes arrive."""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def arrive_before_syncwarp(y):
    lane = cuda.threadIdx.x % 32
    if cuda.threadIdx.x >= 32:
        ptx.barrier_arrive(1, 64)
        cuda.syncwarp()
    else:
        ptx.bar_sync(1, 64)
        y[lane] = 1


arrive_before_syncwarp[1, 64](np.zeros(32, np.float32))
