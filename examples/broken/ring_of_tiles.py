"""Tensor map: tiles of a matrix are 30 columns apart, but a tensor copy requires multiples of 16 bytes.

The first tile is aligned, the second one begins 8 bytes after a multiple: an H100 raises an illegal instruction.
"""

import numpy as np

import wsemu
from wsemu import cuda, ptx

STEP = 30  # columns between two tiles; 32 would do


@cuda.jit
def ring_of_tiles(source, y, tiles):
    tile = cuda.shared.array((8, 32), np.float32, 128)
    full = cuda.shared.array(1, np.uint64)
    t = cuda.threadIdx.x
    if t == 0:
        ptx.mbarrier_init(full, 0, 1)
        ptx.fence_mbarrier_init()
    cuda.syncwarp()
    for i in range(tiles):
        if t == 0:
            ptx.mbarrier_arrive_expect_tx(full, 0, 1024)
            ptx.cp_async_bulk_tensor_global_to_shared(tile, (0, 0), source, (STEP * i, 0), full, 0)
        ptx.mbarrier_wait_parity(full, 0, i & 1)
        for row in range(8):
            y[i, row, t] = tile[row, t]
        ptx.fence_proxy_async()
        cuda.syncwarp()


x = np.ones((8, 128), np.float32)
ring_of_tiles[1, 32](wsemu.TensorMap(x, (8, 32)), np.zeros((3, 8, 32), np.float32), 3)
