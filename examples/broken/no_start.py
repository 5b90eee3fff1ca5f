"""Deadlock: the compute warps forget the first `start_async_dma`, so the DMA warp never fills the buffer."""

import numpy as np

from wsemu import cuda
from wsemu.patterns.base import CudaDMA

TILE = 64
DMA = CudaDMA(1, 32, TILE, TILE)


@cuda.jit
def no_start(n, x, y):
    tile = cuda.shared.array(TILE, np.float32)
    thread = cuda.threadIdx.x
    if thread < TILE:
        # DMA.start_async_dma() belongs here
        for first in range(0, n, TILE):
            DMA.wait_for_dma_finish()
            y[first + thread] = 2 * tile[thread]
            DMA.start_async_dma()
    else:
        DMA.wait_for_dma_start()
        for first in range(0, n, TILE):
            for i in range(thread - TILE, TILE, 32):
                tile[i] = x[first + i]
            DMA.finish_async_dma()
            DMA.wait_for_dma_start()


x = np.arange(256, dtype=np.float32)
no_start[1, TILE + 32](len(x), x, np.zeros_like(x))
