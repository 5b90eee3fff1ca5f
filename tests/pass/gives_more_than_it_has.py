"""The fix of `gives_more_than_it_has`: they keep fewer than they have."""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit(max_registers=168)
def gives_more_than_it_has(y):
    if cuda.threadIdx.x >= 128:
        ptx.setmaxnreg_dec(40)
    y[cuda.threadIdx.x] = 1


gives_more_than_it_has[1, 256](np.zeros(256, np.float32))
