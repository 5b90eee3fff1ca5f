"""The fix of `more_registers_than_the_pool`: what they ask for is there."""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit(max_registers=168)
def more_registers_than_the_pool(y):
    group = cuda.threadIdx.x // 128
    if group == 0:
        ptx.setmaxnreg_dec(40)
    else:
        ptx.setmaxnreg_inc(232)
    y[cuda.threadIdx.x] = 1


more_registers_than_the_pool[1, 384](np.zeros(384, np.float32))
