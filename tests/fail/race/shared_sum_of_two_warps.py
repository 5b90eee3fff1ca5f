"""Race: each warp stores its sum, and warp 0 adds them up with nothing but a `syncwarp` between.

`syncwarp` orders the lanes of one warp, no others.
Hardware: warp 0 misses the sums of warps that are behind.
"""

import numpy as np

from wsemu import cuda


@cuda.jit
def shared_sum_of_two_warps(x, y):
    sums = cuda.shared.array(2, np.float32)
    t = cuda.threadIdx.x
    total = x[t]
    for step in (16, 8, 4, 2, 1):
        total += cuda.shfl_down_sync(0xFFFFFFFF, total, step)
    if t % 32 == 0:
        sums[1 - t // 32] = total
    cuda.syncwarp()
    if t == 32:
        y[0] = sums[0] + sums[1]  # expect: race


shared_sum_of_two_warps[1, 64](np.ones(64, np.float32), np.zeros(1, np.float32))
