"""Race: as `no_empty_wait`, with two tiles: too few for a hang, enough to overwrite the first one early.

Reported: verification.md's peers, "producer laps the consumer".
Hardware: the sum holds the second tile twice, in some runs.
"""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def two_tiles_no_empty_wait(x, y):
    tile = cuda.shared.array(32, np.float32)
    lane = cuda.threadIdx.x % 32
    if cuda.threadIdx.x >= 32:  # the DMA warp
        for i in range(2):
            tile[lane] = x[i * 32 + lane]
            ptx.bar_arrive(1, 64)  # expect: barrier-recycling
    else:  # the compute warp
        total = np.float32(0)
        for _ in range(2):
            ptx.bar_sync(1, 64)
            total += tile[lane]  # expect: race
        y[lane] = total


two_tiles_no_empty_wait[1, 64](np.ones(64, np.float32), np.zeros(32, np.float32))
