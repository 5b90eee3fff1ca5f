"""Deadlock: a compute warp without work returns before the barriers that count it (B8: exited warps still count).

With 96 elements the fourth compute warp has none.  The others signal "empty" and wait for "full"; the DMA warp waits
for a fourth arrival that never comes.
"""

import numpy as np

from wsemu import cuda
from wsemu.patterns.base import CudaDMA

COMPUTE_THREADS = 128
DMA = CudaDMA(1, 32, COMPUTE_THREADS, COMPUTE_THREADS)


@cuda.jit
def early_exit(n, x, y):
    tile = cuda.shared.array(COMPUTE_THREADS, np.float32)
    thread = cuda.threadIdx.x
    if thread < COMPUTE_THREADS:
        if thread >= n:
            return  # should still arrive and wait, and only skip the work
        DMA.start_async_dma()
        DMA.wait_for_dma_finish()
        y[thread] = 2 * tile[thread]
    else:
        DMA.wait_for_dma_start()
        for i in range(thread - COMPUTE_THREADS, n, 32):
            tile[i] = x[i]
        DMA.finish_async_dma()


x = np.arange(96, dtype=np.float32)
early_exit[1, COMPUTE_THREADS + 32](len(x), x, np.zeros_like(x))
