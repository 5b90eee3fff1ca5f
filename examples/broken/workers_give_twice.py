"""Setmaxnreg repeated: worker warps release registers at the end of a round, and again at the start of the next one."""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit(max_registers=168)
def workers_give_twice(x, y):
    thread = cuda.threadIdx.x
    if thread >= 128:  # the workers
        for i in range(2):
            ptx.setmaxnreg_dec(120)
            cuda.syncthreads()
            y[i * 128 + thread - 128] = 2 * x[i * 128 + thread - 128]
            cuda.syncthreads()
            ptx.setmaxnreg_dec(120)  # belongs before the loop alone
    else:
        for _ in range(2):
            cuda.syncthreads()
            cuda.syncthreads()


workers_give_twice[1, 256](np.ones(256, np.float32), np.zeros(256, np.float32))
