"""Tx mismatch: the other CTA expects its own bytes, and not those of the multicast.

Reported: flashinfer-bench 183.
Hardware: the phase stays open (M11).
"""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def multicast_bytes_left_out(x, y):
    tile = cuda.shared.array(64, np.float32, 16)
    full = cuda.shared.array(1, np.uint64)
    t, rank = cuda.threadIdx.x, ptx.cluster_ctarank()
    if t == 0:
        ptx.mbarrier_init(full, 0, 2)
        ptx.fence_mbarrier_init()
        ptx.mbarrier_arrive_expect_tx(full, 0, 128)
    ptx.cluster_sync()
    if t == 0:
        ptx.cp_async_bulk_global_to_shared_multicast(  # expect: tx-mismatch, async-outlives-cta, dsmem-after-exit
            tile, 32 * rank, x, 0, 128, full, 0, 3
        )
    ptx.cluster_sync()
    y[cuda.grid(1)] = x[cuda.grid(1)]


multicast_bytes_left_out[2, 32, 0, 0, 2](np.ones(64, np.float32), np.zeros(64, np.float32))
