"""Dsmem before start: a CTA writes to the other one, which may not have begun.

Hardware: not measured; the CUDA programming guide asks for the barrier.
"""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def writes_before_all_have_started(x, y):
    tile = cuda.shared.array(32, np.float32)
    t = cuda.threadIdx.x
    peer = ptx.mapa(tile, ptx.cluster_ctarank() ^ 1)
    peer[t] = x[cuda.grid(1)]  # expect: dsmem-before-start
    ptx.cluster_sync()
    y[cuda.grid(1)] = tile[t]


writes_before_all_have_started[2, 32, 0, 0, 2](np.ones(64, np.float32), np.zeros(64, np.float32))
