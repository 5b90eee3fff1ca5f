"""Invalid barrier: a library adds its offset of 8 to a caller's id of 10.

Reported: TransformerEngine PR 2554, 10 + 8 = 18.
Hardware: an id in a register is taken silently, and which barrier it means is not defined (B1).
"""

import numpy as np

from wsemu import cuda, ptx

RESERVED = 8


@cuda.jit
def id_beyond_15(barrier, y):
    ptx.bar_sync(barrier + RESERVED, 64)  # expect: invalid-barrier
    y[cuda.threadIdx.x] = 1


id_beyond_15[1, 64](10, np.zeros(64, np.int32))
