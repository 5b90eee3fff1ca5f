"""Cluster barrier: a CTA arrives before its work, waits after it, and synchronizes in between.

That is a second arrive without a wait.
"""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def cluster_met_halfway(x, y):
    ptx.cluster_arrive()
    y[cuda.grid(1)] = x[cuda.grid(1)]
    ptx.cluster_sync()
    ptx.cluster_wait()


cluster_met_halfway[2, 32, 0, 0, 2](np.ones(64, np.float32), np.zeros(64, np.float32))
