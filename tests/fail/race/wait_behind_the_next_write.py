"""Race: the wait for the store stands behind the write that needs it.

Reported: FlagTree 1166.
Hardware: old or mixed values, now and then.
"""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def wait_behind_the_next_write(x, y):
    tile = cuda.shared.array(32, np.float32)
    lane = cuda.threadIdx.x
    for i in range(3):
        tile[lane] = x[i * 32 + lane]  # expect: race
        if lane == 0:
            ptx.cp_async_bulk_wait_group_read(0)
        ptx.fence_proxy_async()
        cuda.syncwarp()
        if lane == 0:
            ptx.cp_async_bulk_shared_to_global(y, i * 32, tile, 0, 128)
            ptx.cp_async_bulk_commit_group()
    if lane == 0:
        ptx.cp_async_bulk_wait_group(0)


wait_behind_the_next_write[1, 32](np.ones(96, np.float32), np.zeros(96, np.float32))
