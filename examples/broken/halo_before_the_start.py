"""Dsmem before start: each CTA of a cluster writes its edge into its neighbour's halo, as its first step.

Nothing ensures that the neighbor has started: `ptx.cluster_sync()` must come first.
"""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def halo_before_the_start(x, y):
    tile = cuda.shared.array(33, np.float32)
    t = cuda.threadIdx.x
    tile[t] = x[cuda.grid(1)]
    if t == 31:
        ptx.mapa(tile, ptx.cluster_ctarank() ^ 1)[32] = tile[t]
    ptx.cluster_sync()
    y[cuda.grid(1)] = tile[t] + tile[t + 1]


halo_before_the_start[2, 32, 0, 0, 2](np.ones(64, np.float32), np.zeros(64, np.float32))
