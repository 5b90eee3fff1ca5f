"""The fix of `wait_behind_the_next_write`: it stands before it."""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def wait_behind_the_next_write(x, y):
    tile = cuda.shared.array(32, np.float32)
    lane = cuda.threadIdx.x
    for i in range(3):
        if lane == 0:
            ptx.cp_async_bulk_wait_group_read(0)
        cuda.syncwarp()
        tile[lane] = x[i * 32 + lane]
        ptx.fence_proxy_async()
        cuda.syncwarp()
        if lane == 0:
            ptx.cp_async_bulk_shared_to_global(y, i * 32, tile, 0, 128)
            ptx.cp_async_bulk_commit_group()
    if lane == 0:
        ptx.cp_async_bulk_wait_group(0)


wait_behind_the_next_write[1, 32](np.ones(96, np.float32), np.zeros(96, np.float32))
