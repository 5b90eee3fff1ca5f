"""Remote mbarrier: a CTA waits on the mbarrier of the CTA to which it has sent its tile.

A CTA can wait only on its own mbarriers.
"""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def asks_the_others_mbarrier(x, y):
    full = cuda.shared.array(1, np.uint64)
    if cuda.threadIdx.x == 0:
        ptx.mbarrier_init(full, 0, 32)
    ptx.cluster_sync()
    theirs = ptx.mapa(full, ptx.cluster_ctarank() ^ 1)
    ptx.mbarrier_arrive_cluster(theirs, 0)
    ptx.mbarrier_wait_parity(theirs, 0, 0)
    y[cuda.grid(1)] = x[cuda.grid(1)]
    ptx.cluster_sync()


asks_the_others_mbarrier[2, 32, 0, 0, 2](np.ones(64, np.float32), np.zeros(64, np.float32))
