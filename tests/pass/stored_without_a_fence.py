"""The fix of `stored_without_a_fence`: each writer fences before the barrier."""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def stored_without_a_fence(x, y):
    tile = cuda.shared.array(64, np.float32)
    t = cuda.threadIdx.x
    tile[t] = x[t]
    ptx.fence_proxy_async()
    cuda.syncthreads()
    if t == 0:
        ptx.cp_async_bulk_shared_to_global(y, 0, tile, 0, 256)
        ptx.cp_async_bulk_commit_group()
        ptx.cp_async_bulk_wait_group(0)


stored_without_a_fence[1, 64](np.ones(64, np.float32), np.zeros(64, np.float32))
