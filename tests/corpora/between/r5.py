import numpy as np

import wsemu
from wsemu import cuda


@cuda.jit
def exchange(buf, flag, out):
    rank, t = cuda.blockIdx.x, cuda.threadIdx.x
    peer = 1 - rank
    buf[64 * rank + t] = rank + 1  # expect: race
    cuda.threadfence_system()
    cuda.syncthreads()
    if t == 0:
        cuda.atomic.exch(flag, peer, 1)
        while cuda.atomic.add(flag, rank, 0) < 1:
            pass
        cuda.threadfence_system()
    cuda.syncthreads()  # fixed
    out[64 * rank + t] = buf[64 * peer + t]


buf, out, flag = np.zeros(128, np.float32), np.zeros(128, np.float32), np.zeros(2, np.int32)
wsemu.check(exchange, 2, 64, (buf, flag, out), ranks=2)
