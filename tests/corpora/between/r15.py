import numpy as np

import wsemu
from wsemu import cuda


@cuda.jit
def meet(flags, out, first):
    rank = first + cuda.blockIdx.x
    cuda.atomic.exch(flags, 1 - rank, 1)
    while cuda.atomic.add(flags, rank, 0) == 0:  # expect: deadlock
        pass
    out[rank] = 1


flags, out = np.zeros(2, np.int32), np.zeros(2, np.float32)
wsemu.check(meet, 1, 1, (flags, out, 0))  # bad
wsemu.check(meet, 2, 1, (flags, out, 0), ranks=2)  # fixed
