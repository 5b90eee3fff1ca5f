"""Race: a loop refills its tile while other warps still read the last one, for the barrier at its end is missing.

Reported: tilelang PR 2613, wrong in 21 to 27 of 30 runs.
Hardware: a warp that is an iteration ahead overwrites what its neighbour is about to read.
"""

import numpy as np

from wsemu import cuda


@cuda.jit
def no_loop_back_barrier(x, y):
    tile = cuda.shared.array(64, np.float32)
    t = cuda.threadIdx.x
    total = np.float32(0)
    for i in range(4):
        tile[t] = x[i * 64 + t]  # expect: race
        cuda.syncthreads()
        total += tile[63 - t]  # expect: race
    y[t] = total


no_loop_back_barrier[1, 64](np.ones(256, np.float32), np.zeros(64, np.float32))
