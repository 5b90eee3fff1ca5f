import numpy as np

import wsemu
from wsemu import cuda


@cuda.jit
def all_reduce(buf, flag, done, out):
    rank, t = cuda.blockIdx.x, cuda.threadIdx.x
    peer = 1 - rank
    for epoch in range(1, 3):
        buf[32 * rank + t] = rank + epoch
        cuda.threadfence_system()
        cuda.syncthreads()
        if t == 0:
            cuda.atomic.exch(flag, peer, epoch)
            while cuda.atomic.add(flag, rank, 0) < epoch:
                pass
            cuda.threadfence_system()
        cuda.syncthreads()
        out[64 * (epoch - 1) + 32 * rank + t] = buf[t] + buf[32 + t]  # expect: race
        cuda.threadfence_system()  # fixed
        cuda.syncthreads()  # fixed
        if t == 0:  # fixed
            cuda.atomic.exch(done, peer, epoch)  # fixed
            while cuda.atomic.add(done, rank, 0) < epoch:  # fixed
                pass  # fixed
            cuda.threadfence_system()  # fixed
        cuda.syncthreads()  # fixed


buf, out = np.zeros(64, np.float32), np.zeros(128, np.float32)
flag, done = np.zeros(2, np.int32), np.zeros(2, np.int32)
wsemu.check(all_reduce, 2, 8, (buf, flag, done, out), ranks=2)
