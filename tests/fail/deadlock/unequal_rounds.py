"""Deadlock: one CTA makes three rounds, the other two, and a phase counts both.

Reported: DeepGEMM 429.
Hardware: hangs: the launch never ends.
"""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def unequal_rounds(x, y):
    full = cuda.shared.array(1, np.uint64)
    t, rank = cuda.threadIdx.x, ptx.cluster_ctarank()
    if t == 0:
        ptx.mbarrier_init(full, 0, 2)
    ptx.cluster_sync()
    for k in range(2 + rank):
        if t == 0:
            ptx.mbarrier_arrive_cluster(ptx.mapa(full, 1), 0)
        if rank == 1:
            ptx.mbarrier_wait_parity(full, 0, k & 1)  # expect: deadlock
        ptx.cluster_sync()
    y[cuda.grid(1)] = x[cuda.grid(1)]


unequal_rounds[2, 32, 0, 0, 2](np.ones(64, np.float32), np.zeros(64, np.float32))
