"""The fix of `nobody_frees_a_stage`: the consumer arrives on the mbarrier of each stage that it has read."""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def nobody_frees_a_stage(x, y, tiles):
    tile = cuda.shared.array((2, 32), np.float32, 16)
    full = cuda.shared.array(2, np.uint64)
    empty = cuda.shared.array(2, np.uint64)
    t = cuda.threadIdx.x
    if t == 0:
        for s in range(2):
            ptx.mbarrier_init(full, s, 1)
            ptx.mbarrier_init(empty, s, 32)
        ptx.fence_mbarrier_init()
    cuda.syncthreads()
    if t == 0:
        for i in range(tiles):
            ptx.mbarrier_wait_parity(empty, i % 2, (i // 2 + 1) % 2)
            ptx.mbarrier_arrive_expect_tx(full, i % 2, 128)
            ptx.cp_async_bulk_global_to_shared(tile, (i % 2, 0), x, i * 32, 128, full, i % 2)
    elif t >= 32:
        for i in range(tiles):
            ptx.mbarrier_wait_parity(full, i % 2, i // 2 % 2)
            y[i * 32 + t - 32] = tile[i % 2, t - 32]
            ptx.fence_proxy_async()
            ptx.mbarrier_arrive(empty, i % 2)


nobody_frees_a_stage[1, 64](np.ones(128, np.float32), np.zeros(128, np.float32), 4)
