import numpy as np

import wsemu
from wsemu import cuda


@cuda.jit
def send(ready, data, done, sizes, out):
    rank = cuda.blockIdx.x
    for n in range(3):
        first = 2 * (n % 2)
        if rank == 0:
            for i in range(first, first + sizes[n]):
                data[i] = n + 1
                cuda.threadfence_system()
                cuda.atomic.exch(ready, i, 1)
            cuda.threadfence_system()
            while cuda.atomic.add(done, 0, 0) <= n:
                pass
            cuda.threadfence_system()
        else:
            for i in range(first, first + sizes[n]):
                while cuda.atomic.add(ready, i, 0) == 0:
                    pass
                cuda.threadfence_system()
                out[4 * n + i] = data[i]  # expect: race
            before = 2 - first
            if n > 0:
                for i in range(before, before + sizes[n]):  # bad
                    cuda.atomic.exch(ready, i, 0)  # bad
                for i in range(before, before + sizes[n - 1]):  # fixed
                    cuda.atomic.exch(ready, i, 0)  # fixed
                    cuda.threadfence_system()  # fixed
            cuda.threadfence_system()
            cuda.atomic.exch(done, 0, n + 1)
            cuda.threadfence_system()


ready, done = np.zeros(4, np.int32), np.zeros(1, np.int32)
data, out = np.zeros(4, np.float32), np.zeros(12, np.float32)
wsemu.check(send, 2, 1, (ready, data, done, np.array([2, 1, 2], np.int32), out), ranks=2)
