"""Phase unobserved: a message is written over before the reader has taken it: ready is told, taken is not.

Reported: cuda-oxide 1066.
Hardware: messages are lost when the writer is quicker.
"""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def mailbox_without_an_answer(x, y):
    message = cuda.shared.array(1, np.float32)
    ready, taken = cuda.shared.array(1, np.uint64), cuda.shared.array(1, np.uint64)
    t = cuda.threadIdx.x
    if t == 0:
        ptx.mbarrier_init(ready, 0, 1)
        ptx.mbarrier_init(taken, 0, 1)
    cuda.syncthreads()
    if t == 0:
        for i in range(4):
            message[0] = x[i]
            ptx.mbarrier_arrive(ready, 0)  # expect: phase-unobserved
    elif t == 32:
        for i in range(4):
            ptx.mbarrier_wait_parity(ready, 0, i & 1)  # expect: deadlock
            y[i] = message[0]


mailbox_without_an_answer[1, 64](np.ones(4, np.float32), np.zeros(4, np.float32))
