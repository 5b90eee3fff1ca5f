"""Bulk copies over what was read, without a proxy fence."""

import numpy as np

from wsemu import cuda, ptx

TILE = 64
THREADS = TILE + 32
BYTES = 4 * TILE


@cuda.jit
def no_proxy_fence(a, x, y):
    full = cuda.shared.array(2, np.uint64)
    empty = cuda.shared.array(2, np.uint64)
    tile = cuda.shared.array((2, TILE), np.float32, 16)
    thread, tiles = cuda.threadIdx.x, x.size // TILE
    if thread < 2:
        ptx.mbarrier_init(full, thread, 1)  # the thread that copies, and bytes
        ptx.mbarrier_init(empty, thread, TILE)
        ptx.fence_mbarrier_init()
    cuda.syncthreads()
    if thread < TILE:  # the two compute warps
        total = np.float32(0)
        for i in range(tiles):
            ptx.mbarrier_wait_parity(full, i % 2, i // 2 & 1)
            for j in range(TILE):
                total += a[thread, i * TILE + j] * tile[i % 2, j]
            ptx.mbarrier_arrive(empty, i % 2)
        y[thread] = total
    elif thread == TILE:  # one thread of the DMA warp
        for i in range(tiles):
            ptx.mbarrier_wait_parity(empty, i % 2, i // 2 & 1 ^ 1)
            ptx.mbarrier_arrive_expect_tx(full, i % 2, BYTES)
            ptx.cp_async_bulk_global_to_shared(tile, (i % 2, 0), x, i * TILE, BYTES, full, i % 2)


a = np.ones((64, 512), np.float32, order="F")  # column by column
x, y = np.arange(512, dtype=np.float32), np.zeros(64, np.float32)
no_proxy_fence[1, THREADS](a, x, y)
