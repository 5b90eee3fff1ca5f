"""The fix of `ring_made_by_a_warp`: one lane makes them."""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def ring_made_by_a_warp(x, y):
    tile = cuda.shared.array((2, 32), np.float32, 16)
    full = cuda.shared.array(2, np.uint64)
    empty = cuda.shared.array(2, np.uint64)
    t = cuda.threadIdx.x
    if t == 32:
        for s in range(2):
            ptx.mbarrier_init(full, s, 1)
            ptx.mbarrier_init(empty, s, 1)
        ptx.fence_mbarrier_init()
    cuda.syncthreads()
    if t == 32:
        for i in range(4):
            ptx.mbarrier_wait_parity(empty, i % 2, i // 2 & 1 ^ 1)
            ptx.mbarrier_arrive_expect_tx(full, i % 2, 128)
            ptx.cp_async_bulk_global_to_shared(tile, (i % 2, 0), x, i * 32, 128, full, i % 2)
    if t < 32:
        for i in range(4):
            ptx.mbarrier_wait_parity(full, i % 2, i // 2)
            y[i * 32 + t] = tile[i % 2, t]
            cuda.syncwarp()
            if t == 0:
                ptx.fence_proxy_async()
                ptx.mbarrier_arrive(empty, i % 2)


ring_made_by_a_warp[1, 64](np.ones(128, np.float32), np.zeros(128, np.float32))
