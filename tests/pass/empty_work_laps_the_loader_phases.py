"""The fix of `empty_work_laps_the_loader_phases`: it waits for each stage that it frees."""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def empty_work_laps_the_loader_phases(y, work):
    full, empty = cuda.shared.array(1, np.uint64), cuda.shared.array(1, np.uint64)
    t = cuda.threadIdx.x
    if t == 0:
        ptx.mbarrier_init(full, 0, 1)
        ptx.mbarrier_init(empty, 0, 2)
    cuda.syncthreads()
    if t == 0:
        for i in range(4):
            ptx.mbarrier_wait_parity(empty, 0, i & 1 ^ 1)
            ptx.mbarrier_arrive(full, 0)
    elif t == 32 or t == 64:
        warp = t // 32 - 1
        for i in range(4):
            ptx.mbarrier_wait_parity(full, 0, i & 1)
            y[warp, i] = work[warp, i]
            ptx.mbarrier_arrive(empty, 0)


work = np.array([[1, 1, 1, 1], [1, 0, 0, 1]], np.int32)
empty_work_laps_the_loader_phases[1, 96](np.zeros((2, 4), np.int32), work)
