"""The fix of `empty_work_laps_the_loader`: a tile without work is waited for, too, and only its use is skipped."""

import numpy as np

from wsemu import cuda, ptx

EMPTY = 1
FULL = 2


@cuda.jit
def empty_work_laps_the_loader(work, x, y):
    tile = cuda.shared.array(32, np.float32)
    lane = cuda.threadIdx.x % 32
    tiles = work.shape[0]
    if cuda.threadIdx.x < 32:  # the compute warp
        for i in range(tiles):
            ptx.bar_arrive(EMPTY, 64)
            ptx.bar_sync(FULL, 64)
            if work[i] == 0:
                continue
            y[i * 32 + lane] = tile[lane]
    else:  # the loader
        for i in range(tiles):
            ptx.bar_sync(EMPTY, 64)
            tile[lane] = x[i * 32 + lane]
            ptx.bar_arrive(FULL, 64)


work = np.array([0, 1, 0, 0, 1], np.int32)
empty_work_laps_the_loader[1, 64](work, np.ones(160, np.float32), np.zeros(160, np.float32))
