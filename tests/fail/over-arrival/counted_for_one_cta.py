"""Over arrival: the count is that of one CTA, and both arrive.

Reported: flashinfer 2550.
Hardware: the launch fails (M4).
"""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def counted_for_one_cta(x, y):
    empty = cuda.shared.array(1, np.uint64)
    t = cuda.threadIdx.x
    if t == 0:
        ptx.mbarrier_init(empty, 0, 1)
    ptx.cluster_sync()
    if t < 2:
        ptx.mbarrier_arrive_cluster(ptx.mapa(empty, 0), 0)  # expect: over-arrival
    if ptx.cluster_ctarank() == 0:
        ptx.mbarrier_wait_parity(empty, 0, 0)
    ptx.cluster_sync()
    y[cuda.grid(1)] = x[cuda.grid(1)]


counted_for_one_cta[2, 32, 0, 0, 2](np.ones(64, np.float32), np.zeros(64, np.float32))
