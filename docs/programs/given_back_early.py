"""The compute warps say that a tile is empty, and then use it."""

import numpy as np

from wsemu import cuda
from wsemu.patterns import Buffers, CudaDMASequential, block_size

TILE = 64
VECTOR = CudaDMASequential(1, 32, TILE, TILE, 4 * TILE, alignment=16)
BUFFERS = Buffers.manual_double(VECTOR)
THREADS = block_size(BUFFERS)


@cuda.jit
def given_back_early(a, x, y):
    tile = cuda.shared.array((2, TILE), np.float32, 16)
    thread, tiles = cuda.threadIdx.x, x.size // TILE
    if BUFFERS.owns_this_thread():  # the DMA warp
        for i in range(tiles):
            BUFFERS.execute_dma(i, tiles, x[i * TILE :], tile[BUFFERS.buffer(i)])
        BUFFERS.finish()
    else:  # the compute warps
        total = np.float32(0)
        BUFFERS.start()
        for i in range(tiles):
            BUFFERS.wait_for_dma_finish(i)
            BUFFERS.start_async_dma(i, tiles)
            for j in range(TILE):
                total += a[thread, i * TILE + j] * tile[BUFFERS.buffer(i), j]
        y[thread] = total


a = np.ones((64, 512), np.float32, order="F")  # column by column
x, y = np.arange(512, dtype=np.float32), np.zeros(64, np.float32)
given_back_early[1, THREADS](a, x, y)
