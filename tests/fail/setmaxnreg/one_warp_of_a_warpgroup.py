"""Setmaxnreg: only the warp that loads gives its registers, the three others of its warpgroup have left before.

Reported: PTX ISA, "setmaxnreg", wants the same one of all warps of a warpgroup.
Hardware: undefined; an H100 goes on, warp by warp (L2).
"""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit(max_registers=168)
def one_warp_of_a_warpgroup(y):
    if cuda.threadIdx.x >= 128:
        if cuda.threadIdx.x >= 160:
            return
        ptx.setmaxnreg_dec(40)  # expect: setmaxnreg
    y[cuda.threadIdx.x] = 1


one_warp_of_a_warpgroup[1, 256](np.zeros(256, np.float32))
