"""Barrier recycling: a compute warp that runs ahead arrives twice on the empty barrier before the other one has
arrived once.

One empty barrier serves both buffers, so the two arrivals of the fast warp look like one arrival of each, and the DMA
warp refills a buffer that the slow warp still reads.
Reported: flashinfer PR 4732.
Hardware: wrong tiles, or a hang, when one compute warp is a tile ahead of the other.
"""

import numpy as np

from wsemu import cuda, ptx

TILES = 4
EMPTY = 1
FULL = 2


@cuda.jit
def run_ahead_arrives_twice(x, y):
    tile = cuda.shared.array((2, 32), np.float32)
    lane = cuda.threadIdx.x % 32
    warp = cuda.threadIdx.x // 32
    if warp == 2:  # the DMA warp
        for i in range(TILES):
            stage = i % 2
            if i >= 2:
                ptx.bar_sync(EMPTY, 96)
            tile[stage, lane] = x[i * 32 + lane]  # expect: race
            ptx.bar_arrive(FULL + 2 * stage, 64)
            ptx.bar_arrive(FULL + 2 * stage + 1, 64)  # expect: barrier-recycling
    else:  # two compute warps, each with its own full barriers
        total = np.float32(0)
        for i in range(TILES):
            stage = i % 2
            ptx.bar_sync(FULL + 2 * stage + warp, 64)
            total += tile[stage, lane]
            if i < TILES - 2:
                ptx.bar_arrive(EMPTY, 96)  # expect: barrier-recycling
        y[warp * 32 + lane] = total


run_ahead_arrives_twice[1, 96](np.ones(TILES * 32, np.float32), np.zeros(64, np.float32))
