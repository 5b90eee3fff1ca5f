"""Proxy: the fence stands behind the copy that needs it.

Reported: facebookexperimental/triton 368.
Hardware: the copy sends old words where the writes met bank conflicts, a barrier between or not (rule T5).
"""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def fence_after_the_copy(x, y):
    tile = cuda.shared.array(64, np.float32)
    t = cuda.threadIdx.x
    tile[t] = x[t]
    cuda.syncthreads()
    if t == 0:
        ptx.cp_async_bulk_shared_to_global(y, 0, tile, 0, 256)  # expect: proxy
        ptx.fence_proxy_async()
        ptx.cp_async_bulk_commit_group()
        ptx.cp_async_bulk_wait_group(0)


fence_after_the_copy[1, 64](np.ones(64, np.float32), np.zeros(64, np.float32))
