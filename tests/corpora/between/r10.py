import numpy as np

import wsemu
from wsemu import cuda


@cuda.jit
def exchange(payload, words, out):
    rank = cuda.blockIdx.x
    payload[1 - rank] = rank + 5  # bad
    cuda.atomic.exch(words, 1 - rank, 1)  # bad
    while cuda.atomic.add(words, rank, 0) == 0:  # bad
        pass  # bad
    out[rank] = payload[rank]  # bad  # expect: race
    cuda.atomic.exch(words, 1 - rank, rank + 5)  # fixed
    cuda.threadfence_system()  # fixed
    while cuda.atomic.add(words, rank, 0) == 0:  # fixed
        pass  # fixed
    out[rank] = cuda.atomic.add(words, rank, 0)  # fixed


payload, words, out = np.zeros(2, np.int32), np.zeros(2, np.int32), np.zeros(2, np.int32)
wsemu.check(exchange, 2, 1, (payload, words, out), ranks=2)
