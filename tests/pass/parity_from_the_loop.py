"""The fix of `parity_from_the_loop`: it counts the waits."""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def parity_from_the_loop(x, y):
    cell = cuda.shared.array(1, np.float32)
    full, empty = cuda.shared.array(1, np.uint64), cuda.shared.array(1, np.uint64)
    t = cuda.threadIdx.x
    if t == 0:
        ptx.mbarrier_init(full, 0, 1)
        ptx.mbarrier_init(empty, 0, 1)
    cuda.syncthreads()
    for i in range(8):
        if i % 2:
            if t == 0:
                ptx.mbarrier_wait_parity(empty, 0, i // 2 & 1 ^ 1)
                cell[0] = x[i]
                ptx.mbarrier_arrive(full, 0)
            elif t == 32:
                ptx.mbarrier_wait_parity(full, 0, i // 2 & 1)
                y[i] = cell[0]
                ptx.mbarrier_arrive(empty, 0)


parity_from_the_loop[1, 64](np.ones(8, np.float32), np.zeros(8, np.float32))
