"""Mbarrier unfenced: a barrier, but no fence, separates the initialization of a ring's mbarriers from its bulk copies.

Hardware: no GPU was observed to lose the bytes; CUTLASS and the CUDA Programming Guide have a fence there.
"""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def doubled(x, y):
    tile = cuda.shared.array((2, 64), np.float32, 16)
    full = cuda.shared.array(2, np.uint64)
    t = cuda.threadIdx.x
    if t == 0:
        for stage in range(2):
            ptx.mbarrier_init(full, stage, 1)
    cuda.syncthreads()
    if t == 64:
        for i in range(2):
            ptx.mbarrier_arrive_expect_tx(full, i, 256)
            ptx.cp_async_bulk_global_to_shared(tile, (i, 0), x, i * 64, 256, full, i)
    elif t < 64:
        for i in range(2):
            ptx.mbarrier_wait_parity(full, i, 0)
            y[i * 64 + t] = 2 * tile[i, t]


if __name__ == "__main__":
    doubled[1, 96](np.ones(128, np.float32), np.zeros(128, np.float32))
