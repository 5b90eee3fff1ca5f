"""Lane lag: all lanes of a warp wait for a tile, and the lane that copies continues with the next tile.

A late lane may wait for a phase that is already over: `cuda.syncwarp()` after the wait prevents that.
"""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def doubled(x, y):
    tile = cuda.shared.array((4, 32), np.float32, 16)
    full = cuda.shared.array(1, np.uint64)
    lane = cuda.threadIdx.x
    if lane == 0:
        ptx.mbarrier_init(full, 0, 1)
        ptx.fence_mbarrier_init()
    cuda.syncwarp()
    for i in range(4):
        if lane == 0:
            ptx.mbarrier_arrive_expect_tx(full, 0, 128)
            ptx.cp_async_bulk_global_to_shared(tile, (i, 0), x, i * 32, 128, full, 0)
        ptx.mbarrier_wait_parity(full, 0, i & 1)
        y[i * 32 + lane] = 2 * tile[i, lane]


if __name__ == "__main__":
    doubled[1, 32](np.ones(128, np.float32), np.zeros(128, np.float32))
