"""Race: 32 lanes store, and one of them arrives for all, without `syncwarp`.

Reported: cudnn-frontend 426.
Hardware: old or mixed values, now and then.
"""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def lanes_store_and_one_arrives(x, y):
    tile = cuda.shared.array(32, np.float32)
    full = cuda.shared.array(1, np.uint64)
    t = cuda.threadIdx.x
    if t == 0:
        ptx.mbarrier_init(full, 0, 1)
    cuda.syncthreads()
    if t < 32:
        tile[t] = x[t]
        if t == 0:
            ptx.mbarrier_arrive(full, 0)
    else:
        ptx.mbarrier_wait_parity(full, 0, 0)
        y[t - 32] = tile[t - 32]  # expect: race


lanes_store_and_one_arrives[1, 64](np.ones(32, np.float32), np.zeros(32, np.float32))
