"""Uninitialized read: the mean over 3 x 3 points needs the corners of the halo, which `corners=True` would load."""

import numpy as np

from wsemu import cuda
from wsemu.patterns import CudaDMAHalo, block_size

X, Y = 32, 2
ROWS, COLUMNS = Y + 2, X + 2  # with the halo
HALO = CudaDMAHalo(1, 32, X * Y, X * Y, 4, X, Y, 1, 4 * COLUMNS)


@cuda.jit
def stencil_no_corners(image, result):
    points = cuda.shared.array((ROWS, COLUMNS), np.float32)
    if cuda.threadIdx.x < X * Y:
        x, y = cuda.threadIdx.x % X + 1, cuda.threadIdx.x // X + 1
        HALO.start_async_dma()
        points[y, x] = image[y, x]
        HALO.wait_for_dma_finish()
        total = np.float32(0)
        for row in range(-1, 2):
            for column in range(-1, 2):
                total += points[y + row, x + column]
        result[y - 1, x - 1] = total / np.float32(9)
    else:
        HALO.execute_dma(image[1:, 1:], points[1:, 1:])


image = np.ones((ROWS, COLUMNS), np.float32)
stencil_no_corners[1, block_size(HALO)](image, np.zeros((Y, X), np.float32))
