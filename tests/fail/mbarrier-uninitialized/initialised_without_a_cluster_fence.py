"""Mbarrier uninitialized: the other CTA arrives after a relaxed barrier, and no fence of the initialisation.

Reported: TIRx-kernels 9; facebookexperimental/triton 1240.
Hardware: not measured.
"""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def initialised_without_a_cluster_fence(x, y):
    full = cuda.shared.array(1, np.uint64)
    t = cuda.threadIdx.x
    if t == 0:
        ptx.mbarrier_init(full, 0, 32)
    ptx.cluster_arrive_relaxed()
    ptx.cluster_wait()
    ptx.mbarrier_arrive_cluster(ptx.mapa(full, ptx.cluster_ctarank() ^ 1), 0)  # expect: mbarrier-uninitialized
    ptx.mbarrier_wait_parity(full, 0, 0)  # expect: mbarrier-uninitialized
    y[cuda.grid(1)] = x[cuda.grid(1)]
    ptx.cluster_sync()


initialised_without_a_cluster_fence[2, 32, 0, 0, 2](np.ones(64, np.float32), np.zeros(64, np.float32))
