"""The fix of `gives_at_both_ends_of_a_round`: once a round."""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit(max_registers=168)
def gives_at_both_ends_of_a_round(x, y):
    thread = cuda.threadIdx.x
    if thread >= 128:  # the workers
        for i in range(2):
            ptx.setmaxnreg_dec(120)
            cuda.syncthreads()
            y[i * 128 + thread - 128] = 2 * x[i * 128 + thread - 128]
            cuda.syncthreads()
    else:
        for _ in range(2):
            cuda.syncthreads()
            cuda.syncthreads()


gives_at_both_ends_of_a_round[1, 256](np.ones(256, np.float32), np.zeros(256, np.float32))
