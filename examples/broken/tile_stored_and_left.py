"""Store outlives CTA: no thread waits until the bulk store has read the tile."""

import numpy as np

from wsemu import cuda, ptx

TILE = 64


@cuda.jit
def tile_stored_and_left(x, y):
    tile = cuda.shared.array(TILE, np.float32, 16)
    thread = cuda.threadIdx.x
    tile[thread] = 2 * x[thread]
    ptx.fence_proxy_async()
    cuda.syncthreads()
    if thread == 0:
        ptx.cp_async_bulk_shared_to_global(y, 0, tile, 0, 4 * TILE)
        ptx.cp_async_bulk_commit_group()
        # ptx.cp_async_bulk_wait_group_read(0) belongs here


tile_stored_and_left[1, TILE](np.ones(TILE, np.float32), np.zeros(TILE, np.float32))
