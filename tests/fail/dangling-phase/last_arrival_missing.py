"""Dangling phase: one of two arrivals comes, and the CTA ends.

Reported: the tail of many pipelines.
Hardware: harmless (M21).
"""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def last_arrival_missing(y):
    done = cuda.shared.array(1, np.uint64)
    t = cuda.threadIdx.x
    if t == 0:
        ptx.mbarrier_init(done, 0, 2)
    cuda.syncthreads()
    y[t] = t
    if t == 0:
        ptx.mbarrier_arrive(done, 0)  # expect: dangling-phase


last_arrival_missing[1, 64](np.zeros(64, np.float32))
