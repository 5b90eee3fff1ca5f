"""The fix of `group_arrives_without_a_guard`: one lane of each warp arrives."""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def group_arrives_without_a_guard(y):
    done = cuda.shared.array(1, np.uint64)
    t = cuda.threadIdx.x
    if t == 0:
        ptx.mbarrier_init(done, 0, 2)
    cuda.syncthreads()
    y[t] = t
    cuda.syncwarp()
    if t % 32 == 0:
        ptx.mbarrier_arrive(done, 0)
    ptx.mbarrier_wait_parity(done, 0, 0)


group_arrives_without_a_guard[1, 64](np.zeros(64, np.float32))
