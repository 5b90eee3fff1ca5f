"""Race: threads add to the same bin with a plain load and a plain store.

Hardware: additions are lost, between warps and between the lanes of one warp.
"""

import numpy as np

from wsemu import cuda


@cuda.jit
def histogram_without_atomics(x, bins):
    t = cuda.threadIdx.x
    old = bins[x[t]]  # expect: race
    bins[x[t]] = old + 1  # expect: race, intra-warp-race


histogram_without_atomics[1, 64](np.arange(64) % 4, np.zeros(4, np.int64))
