import numpy as np

import wsemu
from wsemu import cuda


@cuda.jit
def two_collectives(flag, out):
    rank = cuda.blockIdx.x
    peer = 1 - rank
    for step in range(2):
        which = (step + rank) % 2  # bad
        which = step  # fixed
        cuda.atomic.exch(flag, 2 * which + peer, 1)
        while cuda.atomic.add(flag, 2 * which + rank, 0) < 1:  # expect: deadlock
            pass
        out[2 * rank + step] = 1


flag, out = np.zeros(4, np.int32), np.zeros(4, np.int32)
wsemu.check(two_collectives, 2, 1, (flag, out), ranks=2)
