"""Race: with no tile to work on, the loop that holds the wait for the bias runs zero times; the epilogue reads it
unwaited.

Reported: cutlass PR 2835, where the zero-tile path skips the barrier that published the data.
Hardware: the epilogue adds whatever shared memory held.
"""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def no_tile_skips_the_barrier(tiles, x, bias, y):
    shared_bias = cuda.shared.array(32, np.float32)
    lane = cuda.threadIdx.x % 32
    if cuda.threadIdx.x < 32:  # the DMA warp
        shared_bias[lane] = bias[lane]
        ptx.bar_arrive(1, 64)
    else:  # the compute warp
        total = np.float32(0)
        for i in range(tiles):
            if i == 0:
                ptx.bar_sync(1, 64)
            total += x[i * 32 + lane]
        y[lane] = total + shared_bias[lane]  # expect: race


x, y = np.ones(32, np.float32), np.zeros(32, np.float32)
no_tile_skips_the_barrier[1, 64](0, x, np.ones(32, np.float32), y)
