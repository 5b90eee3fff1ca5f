"""Barrier divergence: threads beyond the end of the arrays do not signal "empty"; with 48 elements that is half a
warp."""

import numpy as np

from wsemu import cuda
from wsemu.patterns import CudaDMASequential, block_size

TILE = 64
ELEMENTS = 48
DMA = CudaDMASequential(1, 32, TILE, TILE, 4 * ELEMENTS)


@cuda.jit
def saxpy_partial_warp(a, x, y):
    tile = cuda.shared.array(TILE, np.float32)
    thread = cuda.threadIdx.x
    if DMA.owns_this_thread():
        DMA.execute_dma(x, tile)
    else:
        if thread < x.size:  # belongs around the last line alone
            DMA.start_async_dma()
        DMA.wait_for_dma_finish()
        if thread < x.size:
            y[thread] = a * tile[thread] + y[thread]


saxpy_partial_warp[1, block_size(DMA)](np.float32(2), np.ones(ELEMENTS, np.float32), np.ones(ELEMENTS, np.float32))
