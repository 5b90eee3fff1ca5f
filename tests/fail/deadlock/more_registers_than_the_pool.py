"""Deadlock: two warpgroups ask for more registers than the third gives back.

Reported: cutlass 2007, tilelang 2406, helion 3620.
Hardware: hangs.
"""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit(max_registers=168)
def more_registers_than_the_pool(y):
    group = cuda.threadIdx.x // 128
    if group == 0:
        ptx.setmaxnreg_dec(40)
    else:
        ptx.setmaxnreg_inc(240)  # expect: deadlock
    y[cuda.threadIdx.x] = 1


more_registers_than_the_pool[1, 384](np.zeros(384, np.float32))
