"""SAXPY, y = a x + y, twice: every thread for itself, and with a DMA warp that fills two buffers in turn.

python examples/saxpy.py [n]             run it: every launch is checked
wsemu check examples/saxpy.py [n]        the same, with a report
"""

import sys

import numpy as np

from wsemu import cuda
from wsemu.patterns.base import CudaDMA

GRID = 4
TILE = 128  # elements, and compute threads
DMA_THREADS = 32

EVEN = CudaDMA(1, DMA_THREADS, TILE, TILE)
ODD = CudaDMA(2, DMA_THREADS, TILE, TILE)  # another buffer, the same DMA warp


@cuda.jit
def saxpy(n, a, x, y):
    for i in range(cuda.grid(1), n, cuda.gridsize(1)):
        y[i] = a * x[i] + y[i]


@cuda.jit
def saxpy_staged(n, a, x, y):
    x_tiles = cuda.shared.array((2, TILE), np.float32)
    y_tiles = cuda.shared.array((2, TILE), np.float32)
    thread = cuda.threadIdx.x
    start = cuda.blockIdx.x * TILE
    step = cuda.gridDim.x * TILE

    if thread < TILE:
        EVEN.start_async_dma()
        ODD.start_async_dma()
        for first in range(start, n, 2 * step):
            EVEN.wait_for_dma_finish()
            y[first + thread] = a * x_tiles[0, thread] + y_tiles[0, thread]
            EVEN.start_async_dma()
            ODD.wait_for_dma_finish()
            y[first + step + thread] = a * x_tiles[1, thread] + y_tiles[1, thread]
            ODD.start_async_dma()
    else:
        lane = thread - TILE
        EVEN.wait_for_dma_start()
        for first in range(start, n, 2 * step):
            for i in range(lane, TILE, DMA_THREADS):
                x_tiles[0, i] = x[first + i]
                y_tiles[0, i] = y[first + i]
            EVEN.finish_async_dma()
            ODD.wait_for_dma_start()
            for i in range(lane, TILE, DMA_THREADS):
                x_tiles[1, i] = x[first + step + i]
                y_tiles[1, i] = y[first + step + i]
            ODD.finish_async_dma()
            EVEN.wait_for_dma_start()
        ODD.wait_for_dma_start()  # answers the compute warps' last arrive


def main():
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 16384
    if n < 1 or n % (2 * GRID * TILE):
        sys.exit(f"n is {n}: give a positive multiple of {2 * GRID * TILE}, two tiles for each of {GRID} CTAs")
    random = np.random.default_rng(1)
    x = random.standard_normal(n, np.float32)
    y = random.standard_normal(n, np.float32)
    a = np.float32(2)  # a power of two: a * x is exact, so that one rounding or two give the same sum
    expected = a * x + y
    plain, staged = y.copy(), y.copy()

    saxpy[GRID, TILE](n, a, x, plain)
    saxpy_staged[GRID, TILE + DMA_THREADS](n, a, x, staged)

    for name, result in (("saxpy", plain), ("saxpy_staged", staged)):
        wrong = np.count_nonzero(result != expected)
        if wrong:
            sys.exit(f"{name}: {wrong} of {n} elements differ from NumPy's float32")
    print(f"saxpy: {n} elements, both kernels equal to NumPy's float32, bit for bit")


if __name__ == "__main__":
    main()
