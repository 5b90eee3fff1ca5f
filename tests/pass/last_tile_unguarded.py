"""The fix of `last_tile_unguarded`: a guard."""

import numpy as np

from wsemu import cuda


@cuda.jit
def last_tile_unguarded(x, y):
    i = cuda.grid(1)
    if i < x.shape[0]:
        y[i] = 2 * x[i]


last_tile_unguarded[2, 32](np.ones(50, np.int64), np.zeros(64, np.int64))
