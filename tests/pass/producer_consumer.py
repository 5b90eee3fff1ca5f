"""No false alarm: one DMA warp and one compute warp, two named barriers, eight tiles.

NVIDIA's `compute-sanitizer --tool racecheck` (CUDA 13.0, on an H200) reports a race in this correct kernel, with 256
hazards at each site.
"""

import numpy as np

from wsemu import cuda, ptx

TILES = 8


@cuda.jit
def producer_consumer(x, y):
    tile = cuda.shared.array(32, np.float32)
    lane = cuda.threadIdx.x % 32
    if cuda.threadIdx.x >= 32:  # the DMA warp
        for i in range(TILES):
            ptx.bar_sync(2, 64)
            tile[lane] = x[i * 32 + lane]
            ptx.bar_arrive(1, 64)
    else:  # the compute warp
        total = np.float32(0)
        for _ in range(TILES):
            ptx.bar_arrive(2, 64)
            ptx.bar_sync(1, 64)
            total += tile[31 - lane]
        y[lane] = total


producer_consumer[1, 64](np.ones(TILES * 32, np.float32), np.zeros(32, np.float32))
