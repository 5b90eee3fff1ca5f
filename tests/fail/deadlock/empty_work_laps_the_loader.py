"""Deadlock: for a tile without work the compute warp gives the buffer back without waiting until it is full.

Its next arrival then falls into the generation that the loader has not yet entered: both arrivals complete it alone.
Reported: vllm PR 26026, a zero-work path that arrives without waiting, laps the loader and hangs.
Hardware: hangs when the compute warp is first; the loader's sync opens a generation that nobody completes.
"""

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
            ptx.bar_arrive(EMPTY, 64)  # expect: all-arrive
            if work[i] == 0:
                continue
            ptx.bar_sync(FULL, 64)  # expect: deadlock
            y[i * 32 + lane] = tile[lane]
    else:  # the loader
        for i in range(tiles):
            ptx.bar_sync(EMPTY, 64)  # expect: barrier-recycling, deadlock
            tile[lane] = x[i * 32 + lane]
            ptx.bar_arrive(FULL, 64)


work = np.array([0, 1], np.int32)
empty_work_laps_the_loader[1, 64](work, np.ones(64, np.float32), np.zeros(64, np.float32))
