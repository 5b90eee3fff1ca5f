"""Invalid barrier: 48 threads, one warp and a half, are to meet at a barrier.

Reported: tilelang PR 2679, where a compiler dropped such a barrier silently.
Hardware: illegal instruction (B2).
"""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def partial_warp_count(threads, y):
    t = cuda.threadIdx.x
    if t < threads:
        ptx.barrier_sync(1, threads)  # expect: invalid-barrier
        y[t] = 1


partial_warp_count[1, 64](48, np.zeros(64, np.int32))
