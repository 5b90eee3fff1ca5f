"""Intra-warp race: each lane reads the word of its neighbour, with no `syncwarp` after the store.

Reported: verification.md's peers on this kernel: racecheck warns, synccheck finds nothing.
Hardware: since sm_70 the lanes of a warp may run apart, and a lane may read before its neighbour has stored.
"""

import numpy as np

from wsemu import cuda


@cuda.jit
def neighbour_without_syncwarp(x, y):
    tile = cuda.shared.array(32, np.float32)
    lane = cuda.threadIdx.x
    tile[lane] = x[lane]
    y[lane] = tile[(lane + 1) % 32]  # expect: intra-warp-race


neighbour_without_syncwarp[1, 32](np.ones(32, np.float32), np.zeros(32, np.float32))
