"""Cluster barrier: a warp arrives twice before it waits.

Hardware: goes on, as far as was seen (L3).
"""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def arrives_at_the_cluster_twice(x, y):
    ptx.cluster_arrive()
    if cuda.threadIdx.x < 32:
        ptx.cluster_arrive()  # expect: cluster-barrier
    ptx.cluster_wait()
    y[cuda.grid(1)] = x[cuda.grid(1)]


arrives_at_the_cluster_twice[2, 64, 0, 0, 2](np.ones(128, np.float32), np.zeros(128, np.float32))
