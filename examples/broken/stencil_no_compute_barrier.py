"""Race: with one buffer, a compute warp stores its points of the next slice while another warp still reads the slice.

The DMA warps wait for all compute warps, but the compute warps do not wait for each other.
"""

import numpy as np

from wsemu import cuda
from wsemu.patterns import CudaDMAHalo, block_size

X, Y, Z = 32, 2, 2
ROWS, COLUMNS = Y + 2, X + 2  # with the halo
HALO = CudaDMAHalo(1, 32, X * Y, X * Y, 4, X, Y, 1, 4 * COLUMNS)


@cuda.jit
def stencil_no_compute_barrier(volume, result):
    points = cuda.shared.array((ROWS, COLUMNS), np.float32)
    if cuda.threadIdx.x < X * Y:
        x, y = cuda.threadIdx.x % X + 1, cuda.threadIdx.x // X + 1
        HALO.start_async_dma()
        for z in range(Z):
            # ptx.bar_sync(15, X * Y) belongs here
            points[y, x] = volume[z, y, x]
            HALO.wait_for_dma_finish()
            result[z, y - 1, x - 1] = points[y - 1, x] + points[y + 1, x] + points[y, x - 1] + points[y, x + 1]
            HALO.start_async_dma()
    else:
        for z in range(Z):
            HALO.execute_dma(volume[z, 1:, 1:], points[1:, 1:])
        HALO.wait_for_dma_start()


volume = np.ones((Z, ROWS, COLUMNS), np.float32)
stencil_no_compute_barrier[1, block_size(HALO)](volume, np.zeros((Z, Y, X), np.float32))
