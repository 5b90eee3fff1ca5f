"""The fix of `histogram_without_atomics`: `cuda.atomic.add`."""

import numpy as np

from wsemu import cuda


@cuda.jit
def histogram_without_atomics(x, bins):
    cuda.atomic.add(bins, x[cuda.threadIdx.x], 1)


histogram_without_atomics[1, 64](np.arange(64) % 4, np.zeros(4, np.int64))
