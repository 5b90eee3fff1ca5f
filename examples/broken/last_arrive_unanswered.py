"""Dangling arrive: after the last tile the compute warps signal once more that the buffer is empty, and no DMA warp
waits for this signal.

The result is correct.  If the barrier is used again before the CTA ends, the arrival counts for the wrong buffer.
"""

import numpy as np

from wsemu import cuda
from wsemu.patterns import CudaDMASequential, block_size

TILE = 64
TILES = 4
DMA = CudaDMASequential(1, 32, TILE, TILE, 4 * TILE)


@cuda.jit
def last_arrive_unanswered(x, y):
    tile = cuda.shared.array(TILE, np.float32)
    thread = cuda.threadIdx.x
    if DMA.owns_this_thread():
        for i in range(TILES):
            DMA.execute_dma(x[i * TILE :], tile)
        # DMA.wait_for_dma_start() belongs here
    else:
        DMA.start_async_dma()
        for i in range(TILES):
            DMA.wait_for_dma_finish()
            y[i * TILE + thread] = 2 * tile[thread]
            DMA.start_async_dma()


x = np.arange(TILES * TILE, dtype=np.float32)
last_arrive_unanswered[1, block_size(DMA)](x, np.zeros_like(x))
