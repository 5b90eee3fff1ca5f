"""The same kernel, with a pattern and `Buffers`."""

import numpy as np

from wsemu import cuda
from wsemu.patterns import Buffers, CudaDMASequential, block_size

TILE = 64
VECTOR = CudaDMASequential(1, 32, TILE, TILE, 4 * TILE)
BUFFERS = Buffers.manual_double(VECTOR)
THREADS = block_size(BUFFERS)


@cuda.jit
def with_patterns(a, x, y):
    tile = cuda.shared.array((BUFFERS.stages, TILE), np.float32)
    thread, tiles = cuda.threadIdx.x, x.size // TILE
    if BUFFERS.owns_this_thread():  # the DMA warp
        for i in range(BUFFERS.first_tile(), tiles, BUFFERS.tile_step()):
            BUFFERS.execute_dma(i, tiles, x[i * TILE :], tile[BUFFERS.buffer(i)])
        BUFFERS.finish()
    else:  # the compute warps
        total = np.float32(0)
        BUFFERS.start()
        for i in range(tiles):
            BUFFERS.wait_for_dma_finish(i)
            for j in range(TILE):
                total += a[thread, i * TILE + j] * tile[BUFFERS.buffer(i), j]
            BUFFERS.start_async_dma(i, tiles)
        y[thread] = total


if __name__ == "__main__":
    a = np.ones((64, 512), np.float32, order="F")  # column by column
    x, y = np.arange(512, dtype=np.float32), np.zeros(64, np.float32)
    with_patterns[1, THREADS](a, x, y)
