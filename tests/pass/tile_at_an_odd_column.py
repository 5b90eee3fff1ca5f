"""The fix of `tile_at_an_odd_column`: the tile begins at a multiple of 16 bytes."""

import numpy as np

import wsemu
from wsemu import cuda, ptx


@cuda.jit
def tile_at_an_odd_column(source, y):
    tile = cuda.shared.array((8, 32), np.float32, 128)
    full = cuda.shared.array(1, np.uint64)
    t = cuda.threadIdx.x
    if t == 0:
        ptx.mbarrier_init(full, 0, 1)
        ptx.fence_mbarrier_init()
    cuda.syncwarp()
    if t == 0:
        ptx.mbarrier_arrive_expect_tx(full, 0, 1024)
        ptx.cp_async_bulk_tensor_global_to_shared(tile, (0, 0), source, (4, 0), full, 0)
    ptx.mbarrier_wait_parity(full, 0, 0)
    for row in range(8):
        y[row, t] = tile[row, t]


x = np.ones((16, 64), np.float32)
tile_at_an_odd_column[1, 32](wsemu.TensorMap(x, (8, 32)), np.zeros((8, 32), np.float32))
