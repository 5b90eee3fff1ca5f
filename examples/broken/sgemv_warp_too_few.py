"""Oversubscribed: the matrix has three DMA warps, and the kernel is launched with one for each of its two DMA objects.

The matrix's barriers count four warps, but the CTA has only three; `block_size` would return five.
"""

import numpy as np

from wsemu import cuda
from wsemu.patterns import CudaDMASequential, CudaDMAStrided

N = 32
VECTOR = CudaDMASequential(1, 32, N, N, 4 * N)
MATRIX = CudaDMAStrided(2, 96, N, N + 32, 4 * N, N, 4 * N, 4 * N)


@cuda.jit
def sgemv_warp_too_few(matrix, x, y):
    x_tile = cuda.shared.array(N, np.float32)
    tile = cuda.shared.array((N, N), np.float32)
    thread = cuda.threadIdx.x
    if thread < N:
        VECTOR.start_async_dma()
        MATRIX.start_async_dma()
        VECTOR.wait_for_dma_finish()
        MATRIX.wait_for_dma_finish()
        total = np.float32(0)
        for j in range(N):
            total += tile[j, thread] * x_tile[j]
        y[thread] = total
    elif VECTOR.owns_this_thread():
        VECTOR.execute_dma(x, x_tile)
    elif MATRIX.owns_this_thread():
        MATRIX.execute_dma(matrix, tile)


# should be sgemv_warp_too_few[1, block_size(VECTOR, MATRIX)], 160 threads
sgemv_warp_too_few[1, N + 64](np.ones((N, N), np.float32), np.ones(N, np.float32), np.zeros(N, np.float32))
