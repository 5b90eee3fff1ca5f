"""Store outlives cta: stores are waited for in every second round alone, and the number of rounds is odd.

Reported: mKernel 18.
Hardware: the copies were seen to arrive on an H100 (T9); PTX promises nothing.
"""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def drained_at_fixed_rounds(x, y, n):
    tile = cuda.shared.array((2, 32), np.float32, 16)
    lane = cuda.threadIdx.x
    for i in range(n):
        tile[i % 2, lane] = x[i * 32 + lane]
        ptx.fence_proxy_async()
        cuda.syncwarp()
        if lane == 0:
            ptx.cp_async_bulk_shared_to_global(y, i * 32, tile, (i % 2, 0), 128)  # expect: store-outlives-cta
            ptx.cp_async_bulk_commit_group()
            if i % 2:
                ptx.cp_async_bulk_wait_group(0)
        cuda.syncwarp()


drained_at_fixed_rounds[1, 32](np.ones(96, np.float32), np.zeros(96, np.float32), 3)
