import numpy as np

import wsemu
from wsemu import cuda


@cuda.jit
def gather(buf, count, out):
    sender, t = cuda.blockIdx.x, cuda.threadIdx.x
    if sender < 2:
        buf[32 * sender + t] = sender + 1
        cuda.threadfence_system()
        cuda.syncthreads()
        if t == 0:
            cuda.atomic.add(count, 0, 1)
    elif sender == 2:
        if t == 0:
            while cuda.atomic.add(count, 0, 0) < 1:  # bad
                pass  # bad
            while cuda.atomic.add(count, 0, 0) < 2:  # fixed
                pass  # fixed
            cuda.threadfence_system()
        cuda.syncthreads()
        out[t] = buf[t]  # expect: race


buf, out, count = np.zeros(64, np.float32), np.zeros(32, np.float32), np.zeros(1, np.int32)
wsemu.check(gather, 4, 8, (buf, count, out), ranks=2)
