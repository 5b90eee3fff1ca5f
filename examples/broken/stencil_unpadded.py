"""Out of bounds: the image has no border, so the halo of the first and the last tile is outside of it."""

import numpy as np

from wsemu import cuda
from wsemu.patterns import CudaDMAHalo, block_size

X, Y, TILES = 32, 2, 2
ROWS, COLUMNS = Y + 2, X + 2  # with the halo
HALO = CudaDMAHalo(1, 32, X * Y, X * Y, 4, X, Y, 1, 4 * X * TILES)


@cuda.jit
def stencil_unpadded(image, result):
    points = cuda.shared.array((ROWS, COLUMNS), np.float32)
    first = cuda.blockIdx.x * X
    if cuda.threadIdx.x < X * Y:
        x, y = cuda.threadIdx.x % X, cuda.threadIdx.x // X
        HALO.start_async_dma()
        points[y + 1, x + 1] = image[y, first + x]
        HALO.wait_for_dma_finish()
        result[y, first + x] = points[y, x + 1] + points[y + 2, x + 1] + points[y + 1, x] + points[y + 1, x + 2]
    else:
        HALO.execute_dma(image[0:, first:], points[1:, 1:])


image = np.ones((Y, X * TILES), np.float32)
stencil_unpadded[TILES, block_size(HALO)](image, np.zeros((Y, X * TILES), np.float32))
