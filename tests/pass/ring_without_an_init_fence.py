"""The fix of `ring_without_an_init_fence`: the thread that initializes executes a fence."""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def ring_without_an_init_fence(x, y):
    tile = cuda.shared.array((2, 64), np.float32, 16)
    full = cuda.shared.array(2, np.uint64)
    t = cuda.threadIdx.x
    if t == 0:
        for stage in range(2):
            ptx.mbarrier_init(full, stage, 1)
        ptx.fence_mbarrier_init()
    cuda.syncthreads()
    if t == 64:
        for i in range(2):
            ptx.mbarrier_arrive_expect_tx(full, i, 256)
            ptx.cp_async_bulk_global_to_shared(tile, (i, 0), x, i * 64, 256, full, i)
    elif t < 64:
        for i in range(2):
            ptx.mbarrier_wait_parity(full, i, 0)
            y[i * 64 + t] = tile[i, t]


ring_without_an_init_fence[1, 96](np.ones(128, np.float32), np.zeros(128, np.float32))
