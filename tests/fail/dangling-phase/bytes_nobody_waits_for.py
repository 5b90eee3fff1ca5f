"""Dangling phase: the producer of a ring expects the bytes of one more tile, which it does not load.

Reported: CUTLASS, test/unit/pipeline/pipeline_tma_async_warp_specialized.cu, whose tail acquires every stage once more.
Hardware: harmless (M21).
"""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def bytes_nobody_waits_for(x, y, tiles):
    tile = cuda.shared.array(32, np.float32, 16)
    full = cuda.shared.array(1, np.uint64)
    empty = cuda.shared.array(1, np.uint64)
    t = cuda.threadIdx.x
    if t == 0:
        ptx.mbarrier_init(full, 0, 1)
        ptx.mbarrier_init(empty, 0, 32)
        ptx.fence_mbarrier_init()
    cuda.syncthreads()
    if t >= 32:
        for i in range(tiles + 1):
            if t == 32:
                ptx.mbarrier_wait_parity(empty, 0, (i & 1) ^ 1)
                ptx.mbarrier_arrive_expect_tx(full, 0, 128)  # expect: dangling-phase
                if i < tiles:
                    ptx.cp_async_bulk_global_to_shared(tile, 0, x, 32 * i, 128, full, 0)
    else:
        for i in range(tiles):
            ptx.mbarrier_wait_parity(full, 0, i & 1)
            y[32 * i + t] = tile[t]
            ptx.fence_proxy_async()
            ptx.mbarrier_arrive(empty, 0)


bytes_nobody_waits_for[1, 64](np.ones(96, np.float32), np.zeros(96, np.float32), 3)
