"""The fix of `count_of_threads_but_one_arrives`: as many are waited for as arrive."""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def count_of_threads_but_one_arrives(y):
    done = cuda.shared.array(1, np.uint64)
    t = cuda.threadIdx.x
    if t == 0:
        ptx.mbarrier_init(done, 0, 2)
    cuda.syncthreads()
    if t % 32 == 0:
        ptx.mbarrier_arrive(done, 0)
    ptx.mbarrier_wait_parity(done, 0, 0)
    y[t] = t


count_of_threads_but_one_arrives[1, 64](np.zeros(64, np.float32))
