"""A ring that one lane of each compute warp gives back, while the others may still read."""

import numpy as np

from wsemu import cuda
from wsemu.patterns import CudaDMASequential, Pipeline, block_size

TILE = 64
VECTOR = CudaDMASequential(1, 32, TILE, TILE, 4 * TILE, engine="bulk")
RING = Pipeline(4, 1, TILE // 32)  # one producer, two compute warps
THREADS = block_size(VECTOR)


@cuda.jit
def one_lane_gives_back(a, x, y):
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
            if thread % 32 == 0:
                RING.consumer_release(bars, i)
        y[thread] = total


a = np.ones((64, 512), np.float32, order="F")  # column by column
x, y = np.arange(512, dtype=np.float32), np.zeros(64, np.float32)
one_lane_gives_back[1, THREADS](a, x, y)
