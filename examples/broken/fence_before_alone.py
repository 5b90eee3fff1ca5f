"""Missing fence: the last CTA reads the results of the others, with a fence only before its atomic.

After the atomic, it need not observe what the others wrote before theirs.
"""

import numpy as np

from wsemu import cuda


@cuda.jit
def fence_before_alone(x, part, count, y):
    last = cuda.shared.array(1, np.int32)
    t, b = cuda.threadIdx.x, cuda.blockIdx.x
    if t == 0:
        part[b] = x[b]
        cuda.threadfence()
        last[0] = cuda.atomic.add(count, 0, 1) == cuda.gridDim.x - 1
        # cuda.threadfence() belongs here
    cuda.syncthreads()
    if last[0] and t < cuda.gridDim.x:
        cuda.atomic.add(y, 0, cuda.ldcg(part, t))


x = np.arange(8, dtype=np.int32)
fence_before_alone[8, 32](x, np.zeros(8, np.int32), np.zeros(1, np.int32), np.zeros(1, np.int32))
