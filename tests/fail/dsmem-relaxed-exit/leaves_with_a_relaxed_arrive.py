"""Dsmem relaxed exit: the arrive before the end does not say that the load is over.

Source: PTX ISA, "barrier.cluster": no guarantees for accesses before a relaxed arrive.
Hardware: not measured; a load that comes after the exit is a launch failure (L4).
"""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def leaves_with_a_relaxed_arrive(x, y):
    tile = cuda.shared.array(32, np.float32)
    t = cuda.threadIdx.x
    tile[t] = x[cuda.grid(1)]
    ptx.cluster_sync()
    y[cuda.grid(1)] = ptx.mapa(tile, ptx.cluster_ctarank() ^ 1)[t]  # expect: dsmem-relaxed-exit
    ptx.cluster_arrive_relaxed()
    ptx.cluster_wait()


leaves_with_a_relaxed_arrive[2, 32, 0, 0, 2](np.ones(64, np.float32), np.zeros(64, np.float32))
