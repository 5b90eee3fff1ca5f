"""Race: a wait leaves as many stores under way as there are stages: the very one that is loaded over.

Reported: DeepEP 657, 660 and 674.
Hardware: old or mixed values, now and then.
"""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def one_group_too_many_in_flight(x, y):
    tile = cuda.shared.array((2, 32), np.float32, 16)
    full = cuda.shared.array(2, np.uint64)
    if cuda.threadIdx.x == 0:
        for s in range(2):
            ptx.mbarrier_init(full, s, 1)
            ptx.fence_mbarrier_init()
        for i in range(4):
            s = i % 2
            ptx.cp_async_bulk_wait_group_read(2)
            ptx.mbarrier_arrive_expect_tx(full, s, 128)
            ptx.cp_async_bulk_global_to_shared(tile, (s, 0), x, i * 32, 128, full, s)  # expect: race
            ptx.mbarrier_wait_parity(full, s, i // 2 & 1)
            ptx.cp_async_bulk_shared_to_global(y, i * 32, tile, (s, 0), 128)
            ptx.cp_async_bulk_commit_group()
        ptx.cp_async_bulk_wait_group(0)


one_group_too_many_in_flight[1, 32](np.ones(128, np.float32), np.zeros(128, np.float32))
