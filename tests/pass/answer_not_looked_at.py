"""The fix of `answer_not_looked_at`: the same is asked again until the answer is yes."""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def answer_not_looked_at(x, y):
    tile = cuda.shared.array(32, np.float32, 128)
    full = cuda.shared.array(1, np.uint64)
    t = cuda.threadIdx.x
    if t == 0:
        ptx.mbarrier_init(full, 0, 1)
        ptx.fence_mbarrier_init()
        ptx.mbarrier_arrive_expect_tx(full, 0, 128)
        ptx.cp_async_bulk_global_to_shared(tile, 0, x, 0, 128, full, 0)
    cuda.syncthreads()
    while not ptx.mbarrier_try_wait_parity(full, 0, 0):
        pass
    y[t] = tile[31 - t]


answer_not_looked_at[1, 32](np.ones(32, np.float32), np.zeros(32, np.float32))
