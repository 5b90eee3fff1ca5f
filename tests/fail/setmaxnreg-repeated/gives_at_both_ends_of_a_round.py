"""Setmaxnreg repeated: the same count at the end of a round and at the head of the next one.

Reported: found in what Triton compiles of `warp_specialize`.
Hardware: nothing changes; an H100 acts warp by warp (L2).
"""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit(max_registers=168)
def gives_at_both_ends_of_a_round(x, y):
    thread = cuda.threadIdx.x
    if thread >= 128:  # the workers
        for i in range(2):
            ptx.setmaxnreg_dec(120)  # expect: setmaxnreg-repeated
            cuda.syncthreads()
            y[i * 128 + thread - 128] = 2 * x[i * 128 + thread - 128]
            cuda.syncthreads()
            ptx.setmaxnreg_dec(120)
    else:
        for _ in range(2):
            cuda.syncthreads()
            cuda.syncthreads()


gives_at_both_ends_of_a_round[1, 256](np.ones(256, np.float32), np.zeros(256, np.float32))
