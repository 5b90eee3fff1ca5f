"""Misaligned: 2 spare float32 at both ends of a row shift the halo by 8 bytes, but it is loaded in accesses of 16."""

import numpy as np

from wsemu import cuda
from wsemu.patterns import CudaDMAHalo, block_size

X, Y, RADIUS = 32, 4, 4
ROWS, COLUMNS = Y + 2 * RADIUS, X + 2 * RADIUS  # with the halo
SPARE = 2  # 4 would do, and so would 0
ROW = COLUMNS + 2 * SPARE
HALO = CudaDMAHalo(1, 32, X * Y, X * Y, 4, X, Y, RADIUS, 4 * ROW, alignment=16)


@cuda.jit
def stencil_odd_margin(image, result):
    points = cuda.shared.array((ROWS, COLUMNS), np.float32, 16)
    if cuda.threadIdx.x < X * Y:
        x, y = cuda.threadIdx.x % X + RADIUS, cuda.threadIdx.x // X + RADIUS
        HALO.start_async_dma()
        points[y, x] = image[y, x + SPARE]
        HALO.wait_for_dma_finish()
        sides = points[y, x - RADIUS] + points[y, x + RADIUS]
        result[y - RADIUS, x - RADIUS] = sides + points[y - RADIUS, x] + points[y + RADIUS, x]
    else:
        HALO.execute_dma(image[RADIUS:, RADIUS + SPARE :], points[RADIUS:, RADIUS:])


image = np.ones((ROWS, ROW), np.float32)
stencil_odd_margin[1, block_size(HALO)](image, np.zeros((Y, X), np.float32))
