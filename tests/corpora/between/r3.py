import numpy as np

import wsemu
from wsemu import cuda


@cuda.jit
def barrier_twice(flag, out):
    rank, t = cuda.blockIdx.x, cuda.threadIdx.x
    peer = 1 - rank
    if t == 0:
        for epoch in range(1, 3):
            cuda.atomic.exch(flag, peer, 1)  # bad
            while cuda.atomic.add(flag, rank, 0) != 1:  # bad  # expect: deadlock
                pass  # bad
            cuda.atomic.exch(flag, rank, 0)  # bad
            cuda.threadfence_system()  # fixed
            cuda.atomic.exch(flag, peer, epoch)  # fixed
            while cuda.atomic.add(flag, rank, 0) < epoch:  # fixed
                pass  # fixed
            cuda.threadfence_system()  # fixed
            out[2 * rank + epoch - 1] = epoch


flag, out = np.zeros(2, np.int32), np.zeros(4, np.int32)
wsemu.check(barrier_twice, 2, 8, (flag, out), ranks=2)
