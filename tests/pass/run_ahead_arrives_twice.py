"""The fix of `run_ahead_arrives_twice`: an empty barrier for each buffer."""

import numpy as np

from wsemu import cuda, ptx

TILES = 8
EMPTY = 6
FULL = 1


@cuda.jit
def run_ahead_arrives_twice(x, y):
    tile = cuda.shared.array((2, 32), np.float32)
    lane = cuda.threadIdx.x % 32
    warp = cuda.threadIdx.x // 32
    if warp == 2:  # the DMA warp
        for i in range(TILES):
            stage = i % 2
            if i >= 2:
                ptx.bar_sync(EMPTY + stage, 96)
            tile[stage, lane] = x[i * 32 + lane]
            ptx.bar_arrive(FULL + 2 * stage, 64)
            ptx.bar_arrive(FULL + 2 * stage + 1, 64)
    else:  # two compute warps, each with its own full barriers
        total = np.float32(0)
        for i in range(TILES):
            stage = i % 2
            ptx.bar_sync(FULL + 2 * stage + warp, 64)
            total += tile[stage, lane]
            if i < TILES - 2:
                ptx.bar_arrive(EMPTY + stage, 96)
        y[warp * 32 + lane] = total


run_ahead_arrives_twice[1, 96](np.ones(TILES * 32, np.float32), np.zeros(64, np.float32))
