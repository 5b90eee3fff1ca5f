import numpy as np

import wsemu
from wsemu import cuda


@cuda.jit
def exchange(buf, flag, out):
    rank, group, t = cuda.blockIdx.x // 2, cuda.blockIdx.x % 2, cuda.threadIdx.x
    space = 0  # bad
    space = 2 * group  # fixed
    mine, other = space + rank, space + 1 - rank
    buf[32 * mine + t] = group + 1  # expect: race
    cuda.threadfence_system()
    cuda.syncthreads()
    if t == 0:
        cuda.atomic.exch(flag, other, 1)
        while cuda.atomic.add(flag, mine, 0) < 1:
            pass
        cuda.threadfence_system()
    cuda.syncthreads()
    out[32 * cuda.blockIdx.x + t] = buf[32 * other + t]


buf, out, flag = np.zeros(128, np.float32), np.zeros(128, np.float32), np.zeros(4, np.int32)
wsemu.check(exchange, 4, 8, (buf, flag, out), ranks=2)
