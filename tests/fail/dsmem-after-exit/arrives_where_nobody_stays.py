"""Dsmem after exit: the last arrive goes to a CTA that does not wait for it.

Reported: the class of triton 9413.
Hardware: the launch fails where the arrive comes too late (L4).
"""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def arrives_where_nobody_stays(x, y):
    empty = cuda.shared.array(1, np.uint64)
    t = cuda.threadIdx.x
    if t == 0:
        ptx.mbarrier_init(empty, 0, 1)
    ptx.cluster_sync()
    y[cuda.grid(1)] = x[cuda.grid(1)]
    if t == 0:
        ptx.mbarrier_arrive_cluster(ptx.mapa(empty, ptx.cluster_ctarank() ^ 1), 0)  # expect: dsmem-after-exit


arrives_where_nobody_stays[2, 32, 0, 0, 2](np.ones(64, np.float32), np.zeros(64, np.float32))
