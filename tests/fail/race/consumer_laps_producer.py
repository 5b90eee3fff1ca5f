"""Race: the compute warp says that the buffer is empty, then reads it again without waiting until it is full.

Reported: GiMMiK PR 23, where the consumer laps the producer.
Hardware: the first tile is used twice, or the second one half written.
"""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def consumer_laps_producer(x, y):
    tile = cuda.shared.array(32, np.float32)
    lane = cuda.threadIdx.x % 32
    if cuda.threadIdx.x < 32:  # the DMA warp
        tile[lane] = x[lane]
        cuda.syncthreads()
        ptx.bar_sync(2, 64)
        tile[lane] = x[32 + lane]  # expect: race
    else:  # the compute warp
        cuda.syncthreads()
        total = tile[lane]
        ptx.bar_arrive(2, 64)
        y[lane] = total + tile[lane]


consumer_laps_producer[1, 64](np.ones(64, np.float32), np.zeros(32, np.float32))
