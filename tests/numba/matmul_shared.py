"""Matrix product, tile by tile through shared memory; dimensions that are no multiples of the tile."""

import math

import numba
import numpy as np
from numba import cuda, float32

TPB = 16


@cuda.jit
def fast_matmul(a, b, c):
    s_a = cuda.shared.array(shape=(TPB, TPB), dtype=float32)
    s_b = cuda.shared.array(shape=(TPB, TPB), dtype=numba.float32)
    x, y = cuda.grid(2)
    tx = cuda.threadIdx.x
    ty = cuda.threadIdx.y
    total = float32(0.0)
    for i in range((a.shape[1] + TPB - 1) // TPB):
        s_a[ty, tx] = 0
        s_b[ty, tx] = 0
        if y < a.shape[0] and tx + i * TPB < a.shape[1]:
            s_a[ty, tx] = a[y, tx + i * TPB]
        if x < b.shape[1] and ty + i * TPB < b.shape[0]:
            s_b[ty, tx] = b[ty + i * TPB, x]
        cuda.syncthreads()
        for j in range(TPB):
            total += s_a[ty, j] * s_b[j, tx]
        cuda.syncthreads()
    if y < c.shape[0] and x < c.shape[1]:
        c[y, x] = total


rng = np.random.default_rng(0)
a = rng.integers(-4, 5, (40, 35)).astype(np.float32)
b = rng.integers(-4, 5, (35, 50)).astype(np.float32)
c_device = cuda.device_array((40, 50), np.float32)
grid = (math.ceil(50 / TPB), math.ceil(40 / TPB))
fast_matmul[grid, (TPB, TPB)](cuda.to_device(a), cuda.to_device(b), c_device)
np.testing.assert_array_equal(c_device.copy_to_host(), a @ b)
# expect: 1 kernel, 1 launch: 1 verified
