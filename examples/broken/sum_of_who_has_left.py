"""Dsmem after exit: the first CTA of a cluster adds the sums in the shared memory of the others.

These do not wait for it: `ptx.cluster_sync()` is missing at the end.
"""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def sum_of_who_has_left(x, y):
    part = cuda.shared.array(32, np.float32)
    t = cuda.threadIdx.x
    part[t] = x[cuda.grid(1)]
    ptx.cluster_sync()
    if ptx.cluster_ctarank() == 0:
        total = np.float32(0)
        for rank in range(ptx.cluster_nctarank()):
            total += ptx.mapa(part, rank)[t]
        y[cuda.grid(1)] = total


sum_of_who_has_left[2, 32, 0, 0, 2](np.ones(64, np.float32), np.zeros(64, np.float32))
