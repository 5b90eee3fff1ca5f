"""Count mismatch: the compute warps use barrier 3, which belongs to the DMA object: dma_id 1 has 2 and 3."""

import numpy as np

from wsemu import cuda, ptx
from wsemu.patterns import CudaDMASequential, block_size

COMPUTE_THREADS = 64
TILE = CudaDMASequential(1, 32, COMPUTE_THREADS, COMPUTE_THREADS, 4 * COMPUTE_THREADS)


@cuda.jit
def fft_barrier_id_taken(x, y):
    buffer = cuda.shared.array(COMPUTE_THREADS, np.float32)
    plane = cuda.shared.array(COMPUTE_THREADS, np.float32)
    thread = cuda.threadIdx.x
    if thread < COMPUTE_THREADS:
        TILE.start_async_dma()
        for i in range(0, x.size, COMPUTE_THREADS):
            TILE.wait_for_dma_finish()
            plane[thread] = buffer[thread]
            TILE.start_async_dma()
            ptx.bar_sync(3, COMPUTE_THREADS)  # give an id that no object uses, such as 15
            other = plane[thread ^ 32]
            ptx.bar_sync(3, COMPUTE_THREADS)
            y[i + thread] = plane[thread] + other
    else:
        for i in range(0, x.size, COMPUTE_THREADS):
            TILE.execute_dma(x[i:], buffer)
        TILE.wait_for_dma_start()


x = np.arange(256, dtype=np.float32)
fft_barrier_id_taken[1, block_size(TILE)](x, np.zeros_like(x))
