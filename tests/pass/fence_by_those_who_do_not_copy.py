"""The fix of `fence_by_those_who_do_not_copy`: the thread that issues the copy fences behind the barrier."""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def fence_by_those_who_do_not_copy(x, y):
    tile = cuda.shared.array(64, np.float32)
    t = cuda.threadIdx.x
    tile[t] = x[t]
    cuda.syncthreads()
    if t == 0:
        ptx.fence_proxy_async()
        ptx.cp_async_bulk_shared_to_global(y, 0, tile, 0, 256)
        ptx.cp_async_bulk_commit_group()
        ptx.cp_async_bulk_wait_group(0)


fence_by_those_who_do_not_copy[1, 64](np.ones(64, np.float32), np.zeros(64, np.float32))
