"""The fix of `pause_in_place_of_a_fence`: a fence stands there."""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def pause_in_place_of_a_fence(x, y):
    tile = cuda.shared.array(32, np.float32)
    lane = cuda.threadIdx.x
    tile[lane] = x[lane]
    ptx.fence_proxy_async()
    cuda.syncwarp()
    if lane == 0:
        ptx.cp_async_bulk_shared_to_global(y, 0, tile, 0, 128)
        ptx.cp_async_bulk_commit_group()
        ptx.cp_async_bulk_wait_group(0)


pause_in_place_of_a_fence[1, 32](np.ones(32, np.float32), np.zeros(32, np.float32))
