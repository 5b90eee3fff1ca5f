import numpy as np

import wsemu
from wsemu import cuda


@cuda.jit
def all_reduce(buf, flag, out):
    rank, t = cuda.blockIdx.x, cuda.threadIdx.x
    peer = 1 - rank
    buf[32 * rank + t] = rank + 1
    cuda.threadfence_system()  # fixed
    cuda.syncthreads()
    if t == 0:
        cuda.atomic.exch(flag, peer, 1)
        while cuda.atomic.add(flag, rank, 0) < 1:
            pass
        cuda.threadfence_system()  # fixed
    cuda.syncthreads()
    out[32 * rank + t] = buf[t] + buf[32 + t]  # expect: race


buf, out, flag = np.zeros(64, np.float32), np.zeros(64, np.float32), np.zeros(2, np.int32)
wsemu.check(all_reduce, 2, 8, (buf, flag, out), ranks=2)
