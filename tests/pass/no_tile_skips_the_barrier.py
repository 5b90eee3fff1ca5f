"""The fix of `no_tile_skips_the_barrier`: the wait stands before the loop, on every path to the epilogue."""

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
        ptx.bar_sync(1, 64)
        for i in range(tiles):
            total += x[i * 32 + lane]
        y[lane] = total + shared_bias[lane]


x, y = np.ones(32, np.float32), np.zeros(32, np.float32)
for tiles in (0, 1):
    no_tile_skips_the_barrier[1, 64](tiles, x, np.ones(32, np.float32), y)
