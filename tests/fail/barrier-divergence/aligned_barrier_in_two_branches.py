"""Barrier divergence: the lanes of a warp reach an aligned barrier from two different branches.

Reported: TIRx-kernels PR 21.
Hardware: illegal instruction (B12).  The emulator counts each half as its whole warp and goes on.
"""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def aligned_barrier_in_two_branches(x, y):
    tile = cuda.shared.array(64, np.float32)
    t = cuda.threadIdx.x
    scale = np.float32(1)
    tile[t] = x[t]
    if t % 32 < 16:
        ptx.bar_sync(1, 64)  # expect: barrier-divergence
        scale = np.float32(2)
    else:
        ptx.bar_sync(1, 64)  # expect: barrier-divergence
    y[t] = scale * tile[63 - t]


aligned_barrier_in_two_branches[1, 64](np.ones(64, np.float32), np.zeros(64, np.float32))
