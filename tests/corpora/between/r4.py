import numpy as np

import wsemu
from wsemu import cuda


@cuda.jit
def meet(flags, word, buf, out):
    rank = cuda.blockIdx.x
    buf[rank] = rank + 1
    cuda.threadfence_system()
    cuda.atomic.exch(flags, rank, 1)
    while cuda.atomic.add(word, 0, 0) != 0x100000001:  # bad  # expect: race
        pass  # bad
    while cuda.atomic.add(flags, 1 - rank, 0) != 1:  # fixed
        pass  # fixed
    cuda.threadfence_system()
    out[rank] = buf[1 - rank]


word = np.zeros(1, np.int64)
flags, buf, out = word.view(np.int32), np.zeros(2, np.float32), np.zeros(2, np.float32)
wsemu.check(meet, 2, 1, (flags, word, buf, out), ranks=2)
