"""Mbarrier range: the bytes of a tile are given where the count of arrivals belongs, a megabyte of them.

Reported: made up.
Hardware: a count above 2^20 spills into the phase and the bytes in silence (M2).
"""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def count_of_bytes(y, n):
    done = cuda.shared.array(1, np.uint64)
    t = cuda.threadIdx.x
    if t == 0:
        ptx.mbarrier_init(done, 0, n)  # expect: mbarrier-range
        ptx.mbarrier_arrive(done, 0)
        ptx.mbarrier_wait_parity(done, 0, 0)
        y[0] = n


count_of_bytes[1, 32](np.zeros(1, np.float32), 1 << 20)
