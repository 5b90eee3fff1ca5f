import numpy as np

import wsemu
from wsemu import cuda


@cuda.jit
def operate(flags, buf, out):
    rank, operation = cuda.blockIdx.x // 2, cuda.blockIdx.x % 2
    used, cleared = operation, 1 - operation
    flags[2 * cleared + rank] = 0  # bad  # expect: race
    flags[4 + 2 * used + rank] = 0  # fixed
    buf[2 * used + rank] = rank + 1
    cuda.threadfence_system()
    cuda.atomic.exch(flags, 2 * used + 1 - rank, 1)
    while cuda.atomic.add(flags, 2 * used + rank, 0) == 0:  # expect: race
        pass
    cuda.threadfence_system()
    out[2 * operation + rank] = buf[2 * used + 1 - rank]


flags, buf, out = np.zeros(8, np.int32), np.zeros(4, np.float32), np.zeros(4, np.float32)
wsemu.check(operate, 4, 1, (flags, buf, out), ranks=2)
