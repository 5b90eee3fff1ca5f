"""Copy size: a bulk copy of 36 bytes, of which the hardware moves 32.

Reported: made up.
Hardware: the size is rounded down in silence (T1).
"""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def odd_number_of_words(x, y, n):
    tile = cuda.shared.array(32, np.float32, 16)
    full = cuda.shared.array(1, np.uint64)
    t = cuda.threadIdx.x
    if t == 0:
        ptx.mbarrier_init(full, 0, 1)
        ptx.fence_mbarrier_init()
    cuda.syncwarp()
    size = 4 * n
    if t == 0:
        ptx.mbarrier_arrive_expect_tx(full, 0, size // 16 * 16)
        ptx.cp_async_bulk_global_to_shared(tile, 0, x, 0, size, full, 0)  # expect: copy-size
    ptx.mbarrier_wait_parity(full, 0, 0)
    if t < n // 4 * 4:
        y[t] = tile[t]


odd_number_of_words[1, 32](np.ones(32, np.float32), np.zeros(32, np.float32), 9)
