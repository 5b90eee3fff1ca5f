"""Out of bounds: the last tile of an array whose length is no multiple of the tile.

Hardware: reads the neighbouring allocation, or raises an illegal address error at a page's end.
"""

import numpy as np

from wsemu import cuda


@cuda.jit
def last_tile_unguarded(x, y):
    i = cuda.grid(1)
    y[i] = 2 * x[i]  # expect: out-of-bounds


last_tile_unguarded[2, 32](np.ones(50, np.int64), np.zeros(64, np.int64))
