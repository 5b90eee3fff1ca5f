"""Proxy: a pause stands between the writes of a tile and the copy of it, where a fence belongs.

Reported: Fuser 1962 and 1967, where a pause hid it.
Hardware: the copy sends old words where the writes met bank conflicts, a barrier between or not (rule T5).
"""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def pause_in_place_of_a_fence(x, y):
    tile = cuda.shared.array(32, np.float32)
    lane = cuda.threadIdx.x
    tile[lane] = x[lane]
    cuda.nanosleep(1000)
    cuda.syncwarp()
    if lane == 0:
        ptx.cp_async_bulk_shared_to_global(y, 0, tile, 0, 128)  # expect: proxy
        ptx.cp_async_bulk_commit_group()
        ptx.cp_async_bulk_wait_group(0)


pause_in_place_of_a_fence[1, 32](np.ones(32, np.float32), np.zeros(32, np.float32))
