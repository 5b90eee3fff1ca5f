"""The fix of `fence_in_a_loop_of_no_rounds`: the fence stands behind the loop."""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def fence_in_a_loop_of_no_rounds(x, y, n):
    state = cuda.shared.array(64, np.float32)
    t = cuda.threadIdx.x
    state[t] = 0
    for i in range(n):
        state[t] += x[i, t]
    ptx.fence_proxy_async()
    cuda.syncthreads()
    if t == 0:
        ptx.cp_async_bulk_shared_to_global(y, 0, state, 0, 256)
        ptx.cp_async_bulk_commit_group()
        ptx.cp_async_bulk_wait_group(0)


fence_in_a_loop_of_no_rounds[1, 64](np.ones((1, 64), np.float32), np.zeros(64, np.float32), 0)
