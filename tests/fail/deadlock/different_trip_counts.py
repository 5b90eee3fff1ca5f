"""Deadlock: the DMA warp rounds the number of tiles up, the compute warp rounds it down.

Reported: tilelang 2566 and its like, pipelines whose two sides disagree about the last iteration.
Hardware: hangs in every run for an n that is no multiple of the tile.
"""

import numpy as np

from wsemu import cuda, ptx

EMPTY = 1
FULL = 2


@cuda.jit
def different_trip_counts(n, x, y):
    tile = cuda.shared.array(32, np.float32)
    lane = cuda.threadIdx.x % 32
    if cuda.threadIdx.x < 32:  # the compute warp
        total = np.float32(0)
        for _ in range(n // 32):
            ptx.bar_arrive(EMPTY, 64)
            ptx.bar_sync(FULL, 64)
            total += tile[lane]
        y[lane] = total
    else:  # the DMA warp
        for i in range((n + 31) // 32):
            ptx.bar_sync(EMPTY, 64)  # expect: deadlock
            tile[lane] = x[i * 32 + lane] if i * 32 + lane < n else np.float32(0)
            ptx.bar_arrive(FULL, 64)


different_trip_counts[1, 64](80, np.ones(80, np.float32), np.zeros(32, np.float32))
