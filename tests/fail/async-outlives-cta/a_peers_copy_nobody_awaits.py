"""Async outlives cta: a copy to the other CTA is awaited by neither.

Reported: cutlass 3643, 3647.
Hardware: not seen to overwrite anything (T9).
"""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def a_peers_copy_nobody_awaits(x, y):
    tile = cuda.shared.array(32, np.float32, 16)
    full = cuda.shared.array(1, np.uint64)
    t, rank = cuda.threadIdx.x, ptx.cluster_ctarank()
    tile[t] = x[t]
    if t == 0:
        ptx.mbarrier_init(full, 0, 1)
        ptx.mbarrier_arrive_expect_tx(full, 0, 128)  # expect: tx-mismatch
    ptx.fence_proxy_async()
    ptx.cluster_sync()
    to, told = ptx.mapa(tile, 1), ptx.mapa(full, 1)
    if t == 0 and rank == 0:
        ptx.cp_async_bulk_shared_to_cluster(  # expect: async-outlives-cta, dsmem-after-exit
            to, 0, tile, 0, 128, told, 0
        )
    ptx.cluster_sync()
    y[cuda.grid(1)] = x[cuda.grid(1)]


a_peers_copy_nobody_awaits[2, 32, 0, 0, 2](np.ones(64, np.float32), np.zeros(64, np.float32))
