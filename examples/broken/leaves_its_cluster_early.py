"""Dsmem relaxed exit: CTAs read their neighbors' sums, and then exit after a relaxed arrive at the cluster barrier.

A relaxed arrive shows that a thread has arrived, not that its loads are complete.
"""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def sums_of_neighbours(x, y):
    total = cuda.shared.array(32, np.int32)
    t = cuda.threadIdx.x
    total[t] = x[cuda.grid(1)] * 2
    ptx.cluster_sync()
    theirs = ptx.mapa(total, ptx.cluster_ctarank() ^ 1)
    y[cuda.grid(1)] = total[t] + theirs[t]
    ptx.cluster_arrive_relaxed()  # the release form, `cluster_arrive`, is meant
    ptx.cluster_wait()


x, y = np.arange(64, dtype=np.int32), np.zeros(64, np.int32)
sums_of_neighbours[2, 32, 0, 0, 2](x, y)
