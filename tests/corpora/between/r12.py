import numpy as np

import wsemu
from wsemu import cuda


@cuda.jit
def two_barriers(buf, flag, out):
    rank, t = cuda.blockIdx.x, cuda.threadIdx.x
    peer = 1 - rank
    for epoch in range(1, 3):
        buf[64 * (epoch - 1) + 32 * rank + t] = rank + epoch  # expect: race
        cuda.threadfence_system()
        cuda.syncthreads()
        if t == 0:
            cuda.atomic.exch(flag, peer, epoch)
            while cuda.atomic.add(flag, rank, 0) < 1:  # bad
                pass  # bad
            while cuda.atomic.add(flag, rank, 0) < epoch:  # fixed
                pass  # fixed
            cuda.threadfence_system()
        cuda.syncthreads()
        out[64 * (epoch - 1) + 32 * rank + t] = buf[64 * (epoch - 1) + 32 * peer + t]


buf, out, flag = np.zeros(128, np.float32), np.zeros(128, np.float32), np.zeros(2, np.int32)
wsemu.check(two_barriers, 2, 8, (buf, flag, out), ranks=2)
