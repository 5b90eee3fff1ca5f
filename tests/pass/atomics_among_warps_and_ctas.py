"""No false alarm: warps and CTAs add to the same words atomically, and nobody uses the results."""

import numpy as np

from wsemu import cuda


@cuda.jit
def atomics_among_warps_and_ctas(bins):
    part = cuda.shared.array(4, np.int32)
    t = cuda.threadIdx.x
    if t < 4:
        part[t] = 0
    cuda.syncthreads()
    cuda.atomic.add(part, t % 4, 1)
    cuda.syncthreads()
    if t < 4:
        cuda.atomic.add(bins, t, part[t])


bins = np.zeros(4, np.int32)
atomics_among_warps_and_ctas[3, 64](bins)
assert (bins == 48).all()
