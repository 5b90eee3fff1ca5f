"""Proxy: partial sums are written and added to the result by a bulk reduction, without a proxy fence.

Reported: cudnn-frontend 784.
Hardware: the copy sends old words where the writes met bank conflicts, a barrier between or not (rule T5).
"""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def reduced_without_a_fence(x, y):
    part = cuda.shared.array(64, np.float32)
    t = cuda.threadIdx.x
    part[t] = x[t]
    cuda.syncthreads()
    if t == 0:
        ptx.cp_reduce_async_bulk_add(y, 0, part, 0, 256)  # expect: proxy
        ptx.cp_async_bulk_commit_group()
        ptx.cp_async_bulk_wait_group(0)


reduced_without_a_fence[1, 64](np.ones(64, np.float32), np.zeros(64, np.float32))
