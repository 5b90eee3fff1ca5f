"""Async outlives CTA: the other CTA waits for the copy, the one that it reads from has left.

Hardware: shared memory ends with its CTA (L4); a copy that reads there later was not tried.
"""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def source_left_before_it_is_read(x, y):
    tile = cuda.shared.array(32, np.float32, 16)
    got = cuda.shared.array(32, np.float32, 16)
    full = cuda.shared.array(1, np.uint64)
    t, rank = cuda.threadIdx.x, ptx.cluster_ctarank()
    if t == 0:
        ptx.mbarrier_init(full, 0, 1)
    tile[t] = x[t]
    ptx.fence_proxy_async()
    ptx.cluster_sync()
    if rank == 0 and t == 0:
        there, told = ptx.mapa(got, 1), ptx.mapa(full, 1)
        ptx.cp_async_bulk_shared_to_cluster(there, 0, tile, 0, 128, told, 0)  # expect: async-outlives-cta
    if rank == 1:
        if t == 0:
            ptx.mbarrier_arrive_expect_tx(full, 0, 128)
        ptx.mbarrier_wait_parity(full, 0, 0)
        y[t] = got[t]


source_left_before_it_is_read[2, 32, 0, 0, 2](np.ones(32, np.float32), np.zeros(32, np.float32))
