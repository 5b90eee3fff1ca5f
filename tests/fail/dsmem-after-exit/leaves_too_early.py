"""Dsmem after exit: a CTA reads from the other one, which does not wait for it.

Reported: triton 11730, 10656, 11731; facebookexperimental/triton 1105.
Hardware: the launch fails where the read comes too late (L4).
"""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def leaves_too_early(x, y):
    tile = cuda.shared.array(32, np.float32)
    t = cuda.threadIdx.x
    tile[t] = x[cuda.grid(1)]
    ptx.cluster_sync()
    peer = ptx.mapa(tile, ptx.cluster_ctarank() ^ 1)
    y[cuda.grid(1)] = peer[t]  # expect: dsmem-after-exit


leaves_too_early[2, 32, 0, 0, 2](np.ones(64, np.float32), np.zeros(64, np.float32))
