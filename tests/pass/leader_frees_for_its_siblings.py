"""The fix of `leader_frees_for_its_siblings`: each of them arrives."""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def leader_frees_for_its_siblings(y):
    full, empty = cuda.shared.array(1, np.uint64), cuda.shared.array(1, np.uint64)
    warp, lane = cuda.threadIdx.x // 32, cuda.threadIdx.x % 32
    if cuda.threadIdx.x == 0:
        ptx.mbarrier_init(full, 0, 1)
        ptx.mbarrier_init(empty, 0, 4)
    cuda.syncthreads()
    if lane == 0:
        for i in range(4):
            if warp == 4:
                ptx.mbarrier_wait_parity(empty, 0, i & 1 ^ 1)
                ptx.mbarrier_arrive(full, 0)
            else:
                ptx.mbarrier_wait_parity(full, 0, i & 1)
                ptx.mbarrier_arrive(empty, 0)
        y[warp] = 1


leader_frees_for_its_siblings[1, 160](np.zeros(5, np.float32))
