"""The fix of `result_read_after_wait_read`: the store is waited for until it is done."""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def result_read_after_wait_read(x, y, z):
    tile = cuda.shared.array(32, np.float32)
    t = cuda.threadIdx.x
    if t < 32:
        tile[t] = x[t]
        ptx.fence_proxy_async()
    cuda.syncthreads()
    if t == 0:
        ptx.cp_async_bulk_shared_to_global(y, 0, tile, 0, 128)
        ptx.cp_async_bulk_commit_group()
        ptx.cp_async_bulk_wait_group(0)
    cuda.syncthreads()
    if t >= 32:
        z[t - 32] = y[t - 32]


result_read_after_wait_read[1, 64](np.ones(32, np.float32), np.zeros(32, np.float32), np.zeros(32, np.float32))
