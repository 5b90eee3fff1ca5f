"""The same kernel again, with bulk copies and a ring of four buffers."""

import numpy as np

from wsemu import cuda
from wsemu.patterns import CudaDMASequential, Pipeline, block_size

TILE = 64
VECTOR = CudaDMASequential(1, 32, TILE, TILE, 4 * TILE, engine="bulk")
RING = Pipeline.of(VECTOR, 4)
THREADS = block_size(VECTOR)


@cuda.jit
def with_a_pipeline(a, x, y):
    bars = cuda.shared.array(RING.barriers, np.uint64)
    tile = cuda.shared.array((RING.stages, TILE), np.float32, 16)
    thread, tiles = cuda.threadIdx.x, x.size // TILE
    RING.start(bars)
    if VECTOR.owns_this_thread():  # the producer
        for i in range(tiles):
            RING.execute_dma(bars, i, VECTOR, x[i * TILE :], tile[RING.stage(i)])
    else:  # the consumers
        total = np.float32(0)
        for i in range(tiles):
            RING.consumer_wait(bars, i)
            for j in range(TILE):
                total += a[thread, i * TILE + j] * tile[RING.stage(i), j]
            RING.consumer_release(bars, i)
        y[thread] = total


if __name__ == "__main__":
    a = np.ones((64, 512), np.float32, order="F")  # column by column
    x, y = np.arange(512, dtype=np.float32), np.zeros(64, np.float32)
    with_a_pipeline[1, THREADS](a, x, y)
    assert (y == x.sum()).all()
