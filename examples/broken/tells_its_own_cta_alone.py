"""Scope: a CTA writes into the other one's tile and arrives there with the scope of its own CTA.

A thread that waits there need not observe the writes.
"""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def tells_its_own_cta_alone(x, y):
    tile = cuda.shared.array(32, np.float32)
    full = cuda.shared.array(1, np.uint64)
    t, other = cuda.threadIdx.x, ptx.cluster_ctarank() ^ 1
    if t == 0:
        ptx.mbarrier_init(full, 0, 32)
    ptx.cluster_sync()
    ptx.mapa(tile, other)[t] = x[cuda.grid(1)]
    ptx.mbarrier_arrive_cluster(ptx.mapa(full, other), 0, 1, "cta")
    ptx.mbarrier_wait_parity(full, 0, 0)
    y[cuda.grid(1)] = tile[31 - t]
    ptx.cluster_sync()


tells_its_own_cta_alone[2, 32, 0, 0, 2](np.ones(64, np.float32), np.zeros(64, np.float32))
