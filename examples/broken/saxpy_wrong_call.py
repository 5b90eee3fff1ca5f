"""All-arrive: the compute warps call the DMA side's `finish_async_dma` instead of waiting for the tile, so both sides
arrive and neither waits."""

import numpy as np

from wsemu import cuda
from wsemu.patterns import CudaDMASequential, block_size

TILE = 64
DMA = CudaDMASequential(1, 32, TILE, TILE, 4 * TILE)


@cuda.jit
def saxpy_wrong_call(a, x, y):
    tile = cuda.shared.array(TILE, np.float32)
    thread = cuda.threadIdx.x
    if DMA.owns_this_thread():
        DMA.execute_dma(x, tile)
    else:
        DMA.start_async_dma()
        DMA.finish_async_dma()  # should be DMA.wait_for_dma_finish()
        y[thread] = a * tile[thread] + y[thread]


saxpy_wrong_call[1, block_size(DMA)](np.float32(2), np.ones(TILE, np.float32), np.ones(TILE, np.float32))
