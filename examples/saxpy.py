"""SAXPY, y = a x + y, staged through shared memory: the micro-benchmark of the CudaDMA paper (SC 2011, section 5).

    python examples/saxpy.py [n [intensity]]           run it: every launch is checked
    wsemu check examples/saxpy.py [n [intensity]]      the same, with a report

    saxpy             every thread for itself, nothing is staged
    staged            all threads copy a tile of x and one of y, 2 KB each, then compute
    staged_float4     the same in accesses of 16 bytes, 8 KB a tile
    cudadma           2 DMA warps copy the tiles of x and 2 those of y, 16 warps compute
    cudadma_double    two buffers, each with 2 + 2 DMA warps of its own
    bulk              the same two buffers; one thread of each set of DMA warps starts a bulk copy (sm_90)
    pipeline          a ring of four buffers, which one thread fills by bulk copies, as far ahead as there are buffers

`intensity` is a number of fused multiply-adds that a thread does to each result on top.  At 0 the memory is the limit,
at hundreds the arithmetic is; in between it matters most who moves the data.
"""

import sys

import numpy as np

from wsemu import cuda, ptx
from wsemu.patterns import Buffers, CudaDMASequential, Pipeline, block_size

GRID = 4
TILE = 512  # elements, and compute threads
TILE_BYTES = 4 * TILE
DMA_THREADS = 64  # for x, and as many for y
WIDE_TILE = 4 * TILE  # elements, where each thread copies four

X = CudaDMASequential(1, DMA_THREADS, TILE, TILE, TILE_BYTES, alignment=16)
Y = CudaDMASequential(2, DMA_THREADS, TILE, TILE + DMA_THREADS, TILE_BYTES, alignment=16)

X_BUFFERS = Buffers.double(X)
Y_BUFFERS = Buffers.double(
    CudaDMASequential(3, DMA_THREADS, TILE, TILE + X_BUFFERS.dma_threads, TILE_BYTES, alignment=16)
)

# the same transfers, of bulk copies: a warp for each is enough
X_BULK = Buffers.double(CudaDMASequential(1, 32, TILE, TILE, TILE_BYTES, engine="bulk"))
Y_BULK = Buffers.double(CudaDMASequential(3, 32, TILE, TILE + X_BULK.dma_threads, TILE_BYTES, engine="bulk"))

STAGES = 4
RING = Pipeline(STAGES, 1, TILE // 32)  # one thread fills it, a lane of each compute warp gives back its buffers

HALF = np.float32(0.5)


@cuda.jit(device=True)
def compute(a, x, y, intensity):
    """a x + y, and some multiply-adds more."""
    value = a * x + y
    for _ in range(intensity):
        value = HALF * value + x
    return value


@cuda.jit
def saxpy(n, a, x, y, intensity):
    for i in range(cuda.grid(1), n, cuda.gridsize(1)):
        y[i] = compute(a, x[i], y[i], intensity)


@cuda.jit
def staged(n, a, x, y, intensity):
    x_tile = cuda.shared.array(TILE, np.float32)
    y_tile = cuda.shared.array(TILE, np.float32)
    thread = cuda.threadIdx.x

    for first in range(cuda.blockIdx.x * TILE, n, cuda.gridDim.x * TILE):
        x_tile[thread] = x[first + thread]
        y_tile[thread] = y[first + thread]
        cuda.syncthreads()  # a thread uses what it copied itself: staging as such is what is measured
        y[first + thread] = compute(a, x_tile[thread], y_tile[thread], intensity)
        cuda.syncthreads()


@cuda.jit
def staged_float4(n, a, x, y, intensity):
    x_tile = cuda.shared.array(WIDE_TILE, np.float32, 16)
    y_tile = cuda.shared.array(WIDE_TILE, np.float32, 16)
    thread = cuda.threadIdx.x

    for first in range(cuda.blockIdx.x * WIDE_TILE, n, cuda.gridDim.x * WIDE_TILE):
        ptx.st_v4(x_tile, 4 * thread, ptx.ld_v4(x, first + 4 * thread))
        ptx.st_v4(y_tile, 4 * thread, ptx.ld_v4(y, first + 4 * thread))
        cuda.syncthreads()
        for i in range(thread, WIDE_TILE, TILE):
            y[first + i] = compute(a, x_tile[i], y_tile[i], intensity)
        cuda.syncthreads()


@cuda.jit
def cudadma(n, a, x, y, intensity):
    x_tile = cuda.shared.array(TILE, np.float32, 16)
    y_tile = cuda.shared.array(TILE, np.float32, 16)
    thread = cuda.threadIdx.x
    start = cuda.blockIdx.x * TILE
    step = cuda.gridDim.x * TILE

    if thread < TILE:
        X.start_async_dma()
        Y.start_async_dma()
        for first in range(start, n, step):
            X.wait_for_dma_finish()
            Y.wait_for_dma_finish()
            y[first + thread] = compute(a, x_tile[thread], y_tile[thread], intensity)
            X.start_async_dma()
            Y.start_async_dma()
    elif X.owns_this_thread():
        registers = cuda.local.array(X.register_bytes, np.uint8, 16)
        for first in range(start, n, step):
            X.start_xfer_async(x[first:], registers)  # while the tile is still in use
            X.wait_xfer_finish(x[first:], x_tile, registers)
        X.wait_for_dma_start()  # answers the compute warps' last arrive
    elif Y.owns_this_thread():
        registers = cuda.local.array(Y.register_bytes, np.uint8, 16)
        for first in range(start, n, step):
            Y.start_xfer_async(y[first:], registers)
            Y.wait_xfer_finish(y[first:], y_tile, registers)
        Y.wait_for_dma_start()


@cuda.jit(device=True)
def doubled(x_buffers, y_buffers, n, a, x, y, intensity):
    """Two buffers of x and two of y, whatever fills them."""
    x_tiles = cuda.shared.array((2, TILE), np.float32, 16)
    y_tiles = cuda.shared.array((2, TILE), np.float32, 16)
    thread = cuda.threadIdx.x
    start = cuda.blockIdx.x * TILE
    step = cuda.gridDim.x * TILE
    tiles = (n - start + step - 1) // step

    if thread < TILE:
        x_buffers.start()
        y_buffers.start()
        for i in range(tiles):
            x_buffers.wait_for_dma_finish(i)
            y_buffers.wait_for_dma_finish(i)
            own_x = x_tiles[x_buffers.buffer(i), thread]
            own_y = y_tiles[y_buffers.buffer(i), thread]
            y[start + i * step + thread] = compute(a, own_x, own_y, intensity)
            x_buffers.start_async_dma(i, tiles)
            y_buffers.start_async_dma(i, tiles)
    elif x_buffers.owns_this_thread():
        registers = cuda.local.array(x_buffers.pattern.register_bytes, np.uint8, 16)
        for i in range(x_buffers.first_tile(), tiles, x_buffers.tile_step()):
            source = x[start + i * step :]
            x_buffers.start_xfer_async(source, registers)
            x_buffers.wait_xfer_finish(i, tiles, source, x_tiles[x_buffers.buffer(i)], registers)
        x_buffers.finish()
    elif y_buffers.owns_this_thread():
        registers = cuda.local.array(y_buffers.pattern.register_bytes, np.uint8, 16)
        for i in range(y_buffers.first_tile(), tiles, y_buffers.tile_step()):
            source = y[start + i * step :]
            y_buffers.start_xfer_async(source, registers)
            y_buffers.wait_xfer_finish(i, tiles, source, y_tiles[y_buffers.buffer(i)], registers)
        y_buffers.finish()


@cuda.jit
def cudadma_double(n, a, x, y, intensity):
    doubled(X_BUFFERS, Y_BUFFERS, n, a, x, y, intensity)


@cuda.jit
def bulk(n, a, x, y, intensity):
    doubled(X_BULK, Y_BULK, n, a, x, y, intensity)


@cuda.jit
def pipeline(n, a, x, y, intensity):
    bars = cuda.shared.array(RING.barriers, np.uint64)
    x_tiles = cuda.shared.array((STAGES, TILE), np.float32, 16)
    y_tiles = cuda.shared.array((STAGES, TILE), np.float32, 16)
    thread = cuda.threadIdx.x
    start = cuda.blockIdx.x * TILE
    step = cuda.gridDim.x * TILE
    tiles = (n - start + step - 1) // step

    RING.start(bars)
    if thread == TILE:  # the producer
        for i in range(tiles):
            first, to, full = start + i * step, (RING.stage(i), 0), RING.full(i)
            RING.producer_acquire(bars, i)
            ptx.cp_async_bulk_global_to_shared(x_tiles, to, x, first, TILE_BYTES, bars, full)
            ptx.cp_async_bulk_global_to_shared(y_tiles, to, y, first, TILE_BYTES, bars, full)
            RING.producer_commit(bars, i, 2 * TILE_BYTES)
    elif thread < TILE:
        for i in range(tiles):
            RING.consumer_wait(bars, i)
            own_x, own_y = x_tiles[RING.stage(i), thread], y_tiles[RING.stage(i), thread]
            y[start + i * step + thread] = compute(a, own_x, own_y, intensity)
            cuda.syncwarp()
            if thread % 32 == 0:
                RING.consumer_release(bars, i)


KERNELS = (
    (saxpy, TILE),
    (staged, TILE),
    (staged_float4, TILE),
    (cudadma, block_size(X, Y)),
    (cudadma_double, block_size(X_BUFFERS, Y_BUFFERS)),
    (bulk, block_size(X_BULK, Y_BULK)),
    (pipeline, TILE + 32),
)
"""with the threads of a CTA"""


def expected(a, x, y, intensity):
    """The kernels' results in float32: a is a power of two, as 0.5 is, so that fused or not, they round once."""
    value = a * x + y
    for _ in range(intensity):
        value = HALF * value + x
    return value


def main():
    given = sys.argv[1:]
    if len(given) > 2 or not all(text.isdecimal() for text in given):
        sys.exit(f"{' '.join(given)}: give n and an intensity, such as 16384 10")
    n, intensity = (*map(int, given), *(16384, 0)[len(given) :])
    if n < 1 or n % (GRID * TILE):
        near = max(-(-n // (GRID * TILE)), 1) * GRID * TILE
        sys.exit(f"n is {n}: give a positive multiple of {GRID * TILE}, a tile for each of {GRID} CTAs, such as {near}")
    random = np.random.default_rng(1)
    x = random.standard_normal(n, np.float32)
    y = random.standard_normal(n, np.float32)
    a = np.float32(2)
    right = expected(a, x, y, intensity)

    for kernel, threads in KERNELS:
        result = y.copy()
        kernel[GRID, threads](n, a, x, result, intensity)
        wrong = np.count_nonzero(result != right)
        if wrong:
            sys.exit(f"{kernel.py_func.__name__}: {wrong} of {n} elements differ from NumPy's float32")
    print(f"saxpy: {n} elements, all {len(KERNELS)} kernels equal to NumPy's float32, bit for bit")


if __name__ == "__main__":
    main()
