"""The same with the second barrier left out: a warp loads the next tile while another still reads the last one."""

import numba.cuda as cuda
import numpy as np
from numba import float32

TPB = 16


@cuda.jit
def racy_matmul(a, b, c):
    s_a = cuda.shared.array((TPB, TPB), float32)
    s_b = cuda.shared.array((TPB, TPB), float32)
    x, y = cuda.grid(2)
    tx = cuda.threadIdx.x
    ty = cuda.threadIdx.y
    total = float32(0.0)
    for i in range(cuda.gridDim.x):
        s_a[ty, tx] = a[y, tx + i * TPB]
        s_b[ty, tx] = b[ty + i * TPB, x]
        cuda.syncthreads()
        for j in range(TPB):
            total += s_a[ty, j] * s_b[j, tx]
    c[y, x] = total


a = np.ones((32, 32), np.float32)
c = np.zeros_like(a)
for _ in range(3):
    racy_matmul[(2, 2), (TPB, TPB)](a, a, c)
# expect: 1 kernel, 3 launches: 3 failed
