"""Incomplete: what `try_wait` answered is written down and never read; what follows is right after a yes alone."""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def answer_kept_in_memory(x, y):
    tile = cuda.shared.array(32, np.float32, 128)
    seen = cuda.shared.array(32, np.int32)
    full = cuda.shared.array(1, np.uint64)
    t = cuda.threadIdx.x
    if t == 0:
        ptx.mbarrier_init(full, 0, 1)
        ptx.mbarrier_arrive_expect_tx(full, 0, 128)
        ptx.cp_async_bulk_global_to_shared(tile, 0, x, 0, 128, full, 0)
    cuda.syncthreads()
    seen[t] = ptx.mbarrier_try_wait_parity(full, 0, 0)  # expect: incomplete
    y[t] = tile[31 - t]


answer_kept_in_memory[1, 32](np.ones(32, np.float32), np.zeros(32, np.float32))
