"""Setmaxnreg: the producer warps are to give registers, and ask for a count above what they have.

Reported: the shape of cutlass 2007.
Hardware: illegal, or hangs (L2).
"""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit(max_registers=168)
def gives_more_than_it_has(y):
    if cuda.threadIdx.x >= 128:
        ptx.setmaxnreg_dec(176)  # expect: setmaxnreg
    y[cuda.threadIdx.x] = 1


gives_more_than_it_has[1, 256](np.zeros(256, np.float32))
