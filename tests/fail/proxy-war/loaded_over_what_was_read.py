"""Proxy war: a tile is read, and after a barrier the next one is loaded over it, without a proxy fence.

Reported: TransformerEngine 2695.
Hardware: nothing was seen on an H100; PTX promises no order, and other kernels showed corruption.
"""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def loaded_over_what_was_read(x, y):
    tile = cuda.shared.array(64, np.float32)
    full = cuda.shared.array(1, np.uint64)
    t = cuda.threadIdx.x
    if t == 0:
        ptx.mbarrier_init(full, 0, 1)
        ptx.fence_mbarrier_init()
    cuda.syncthreads()
    for i in range(2):
        if t == 0:
            ptx.mbarrier_arrive_expect_tx(full, 0, 256)
            ptx.cp_async_bulk_global_to_shared(tile, 0, x, i * 64, 256, full, 0)  # expect: proxy-war
        ptx.mbarrier_wait_parity(full, 0, i)
        y[i * 64 + t] = tile[t]
        cuda.syncthreads()


loaded_over_what_was_read[1, 64](np.ones(128, np.float32), np.zeros(128, np.float32))
