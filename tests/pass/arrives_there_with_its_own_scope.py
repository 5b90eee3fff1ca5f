"""The fix of `arrives_there_with_its_own_scope`: the arrive has the scope of the cluster."""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def arrives_there_with_its_own_scope(x, y):
    tile = cuda.shared.array(32, np.float32)
    full = cuda.shared.array(1, np.uint64)
    t = cuda.threadIdx.x
    if t == 0:
        ptx.mbarrier_init(full, 0, 32)
    ptx.cluster_sync()
    peer, theirs = ptx.mapa(tile, ptx.cluster_ctarank() ^ 1), ptx.mapa(full, ptx.cluster_ctarank() ^ 1)
    peer[t] = x[cuda.grid(1)]
    ptx.mbarrier_arrive_cluster(theirs, 0)
    ptx.mbarrier_wait_parity(full, 0, 0)
    y[cuda.grid(1)] = tile[31 - t]
    ptx.cluster_sync()


arrives_there_with_its_own_scope[2, 32, 0, 0, 2](np.ones(64, np.float32), np.zeros(64, np.float32))
