"""Uncoalesced: the matrix is stored row by row, but each DMA thread loads a row of its own, so 32 lanes load from 32
rows at a time.

The result is correct.  With a column-major matrix, or lanes along the rows, they would load from one.
"""

from dataclasses import dataclass

import numpy as np

from wsemu import cuda
from wsemu.patterns import CudaDMACustom, block_size

N = 64


@dataclass(frozen=True)
class Columns(CudaDMACustom):
    """Fills a tile with the matrix, transposed: a column of the matrix becomes a row of the tile."""

    def transfer(self, thread, src, dst):
        for column in range(N):
            dst[column, thread] = src[thread, column]


MATRIX = Columns(1, N, N, N)


@cuda.jit
def sgemv_row_major(matrix, x, y):
    tile = cuda.shared.array((N, N), np.float32)
    thread = cuda.threadIdx.x
    if MATRIX.owns_this_thread():
        MATRIX.execute_dma(matrix, tile)
    else:
        MATRIX.start_async_dma()
        MATRIX.wait_for_dma_finish()
        total = np.float32(0)
        for column in range(N):
            total += tile[column, thread] * x[column]
        y[thread] = total


matrix = np.ones((N, N), np.float32)  # np.asfortranarray(...) would be column by column
sgemv_row_major[1, block_size(MATRIX)](matrix, np.ones(N, np.float32), np.zeros(N, np.float32))
