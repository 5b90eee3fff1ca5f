"""Race: the next round writes the tile while the copy of the last one may still read it.

Reported: Fuser 5448.
Hardware: old or mixed values, now and then.
"""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def no_wait_for_the_store(x, y):
    tile = cuda.shared.array(32, np.float32)
    lane = cuda.threadIdx.x
    for i in range(3):
        cuda.syncwarp()
        tile[lane] = x[i * 32 + lane]  # expect: race
        ptx.fence_proxy_async()
        cuda.syncwarp()
        if lane == 0:
            ptx.cp_async_bulk_shared_to_global(y, i * 32, tile, 0, 128)
            ptx.cp_async_bulk_commit_group()
    if lane == 0:
        ptx.cp_async_bulk_wait_group(0)


no_wait_for_the_store[1, 32](np.ones(96, np.float32), np.zeros(96, np.float32))
