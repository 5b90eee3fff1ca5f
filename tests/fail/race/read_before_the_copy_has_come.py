"""Race: a tile is read without waiting for its asynchronous copies.

Reported: the commonest slip with cp.async.
Hardware: old or mixed values, now and then.
"""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def read_before_the_copy_has_come(x, y):
    tile = cuda.shared.array(64, np.float32, 16)
    t = cuda.threadIdx.x
    ptx.cp_async_ca(tile, t, x, t, 4)  # expect: async-outlives-cta
    ptx.cp_async_commit_group()
    cuda.syncthreads()
    y[t] = tile[63 - t]  # expect: race


read_before_the_copy_has_come[1, 64](np.ones(64, np.float32), np.zeros(64, np.float32))
