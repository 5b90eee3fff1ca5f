"""An arrive or wait that does not go with the others at the cluster's barrier."""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def arrives_twice(x, y):
    ptx.cluster_arrive()
    if cuda.threadIdx.x < 32:
        ptx.cluster_arrive()  # expect: cluster-barrier
    ptx.cluster_wait()
    y[cuda.grid(1)] = x[cuda.grid(1)]


arrives_twice[2, 64, 0, 0, 2](np.ones(128, np.float32), np.zeros(128, np.float32))
