"""Oversubscribed: three warps use a barrier that counts two.

The surplus warp opens the next generation (B9), which nobody completes, and any of the three may be the surplus one.
Hardware: two warps go on, the third hangs.
"""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def one_warp_too_many(y):
    ptx.bar_sync(1, 64)  # expect: oversubscribed, deadlock, barrier-recycling
    y[cuda.threadIdx.x] = 1


one_warp_too_many[1, 96](np.zeros(96, np.int32))
