import numpy as np

import wsemu
from wsemu import cuda


@cuda.jit
def first_signal(flag, out):
    rank, t = cuda.blockIdx.x, cuda.threadIdx.x
    peer = 1 - rank
    if t == 0:
        flag[rank] = 0  # bad
        cuda.threadfence_system()
        cuda.atomic.exch(flag, peer, 1)  # expect: race
        while cuda.atomic.add(flag, rank, 0) < 1:
            pass
        out[rank] = 1


flag, out = np.zeros(2, np.int32), np.zeros(2, np.int32)
wsemu.check(first_signal, 2, 1, (flag, out), ranks=2)
