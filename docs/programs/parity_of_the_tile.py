"""The parity of the tile's number, instead of that of its round through the ring."""

import numpy as np

from wsemu import cuda, ptx

TILE = 64
THREADS = TILE + 32


@cuda.jit
def parity_of_the_tile(a, x, y):
    full = cuda.shared.array(2, np.uint64)
    empty = cuda.shared.array(2, np.uint64)
    tile = cuda.shared.array((2, TILE), np.float32)
    thread, tiles = cuda.threadIdx.x, x.size // TILE
    if thread < 2:
        ptx.mbarrier_init(full, thread, 32)  # arrivals a phase: of the DMA warp's lanes
        ptx.mbarrier_init(empty, thread, TILE)  # and of the compute warps'
    cuda.syncthreads()
    if thread < TILE:  # the two compute warps
        total = np.float32(0)
        for i in range(tiles):
            ptx.mbarrier_wait_parity(full, i % 2, i & 1)
            for j in range(TILE):
                total += a[thread, i * TILE + j] * tile[i % 2, j]
            ptx.mbarrier_arrive(empty, i % 2)
        y[thread] = total
    else:  # the DMA warp
        for i in range(tiles):
            ptx.mbarrier_wait_parity(empty, i % 2, i & 1 ^ 1)
            for j in range(thread - TILE, TILE, 32):
                tile[i % 2, j] = x[i * TILE + j]
            ptx.mbarrier_arrive(full, i % 2)


a = np.ones((64, 512), np.float32, order="F")  # column by column
x, y = np.arange(512, dtype=np.float32), np.zeros(64, np.float32)
parity_of_the_tile[1, THREADS](a, x, y)
