"""The fix of `store_warp_of_a_pipeline`: each writer fences before it arrives."""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def store_warp_of_a_pipeline(x, y):
    tile = cuda.shared.array(64, np.float32)
    full = cuda.shared.array(1, np.uint64)
    t = cuda.threadIdx.x
    if t == 0:
        ptx.mbarrier_init(full, 0, 64)
    cuda.syncthreads()
    if t < 64:
        tile[t] = x[t]
        ptx.fence_proxy_async()
        ptx.mbarrier_arrive(full, 0)
    elif t == 64:
        ptx.mbarrier_wait_parity(full, 0, 0)
        ptx.cp_async_bulk_shared_to_global(y, 0, tile, 0, 256)
        ptx.cp_async_bulk_commit_group()
        ptx.cp_async_bulk_wait_group(0)


store_warp_of_a_pipeline[1, 96](np.ones(64, np.float32), np.zeros(64, np.float32))
