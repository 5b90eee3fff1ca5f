"""Race: the DMA warp laps the compute warp, for no barrier tells it that the buffer is empty.

Reported: verification.md's peers on this kernel: racecheck finds nothing, synccheck gives no answer in 30 s.
Hardware: tiles are overwritten while they are read; when two arrivals of the DMA warp meet in one generation, the
compute warp waits for ever.
"""

import numpy as np

from wsemu import cuda, ptx

TILES = 8


@cuda.jit
def no_empty_wait(x, y):
    tile = cuda.shared.array(32, np.float32)
    lane = cuda.threadIdx.x % 32
    if cuda.threadIdx.x >= 32:  # the DMA warp
        for i in range(TILES):
            tile[lane] = x[i * 32 + lane]
            ptx.bar_arrive(1, 64)  # expect: barrier-recycling, all-arrive
    else:  # the compute warp
        total = np.float32(0)
        for _ in range(TILES):
            ptx.bar_sync(1, 64)  # expect: deadlock, barrier-recycling
            total += tile[lane]  # expect: race
        y[lane] = total


no_empty_wait[1, 64](np.ones(TILES * 32, np.float32), np.zeros(32, np.float32))
