"""SAXPY, y = a x + y, staged through shared memory: the micro-benchmark of the CudaDMA paper (SC 2011, section 5).

    python examples/saxpy.py [n [intensity]]           run it: every launch is checked
    wsemu check examples/saxpy.py [n [intensity]]      the same, with a report

    saxpy             every thread for itself, nothing is staged
    staged            all threads copy a tile of x and one of y, 2 KB each, then compute
    staged_float4     the same in accesses of 16 bytes, 8 KB a tile
    cudadma           2 DMA warps copy the tiles of x and 2 those of y, 16 warps compute
    cudadma_double    two buffers, each with 2 + 2 DMA warps of its own
    bulk              two buffers of 8 KB; one thread of each set of DMA warps starts a bulk copy (sm_90)
    pipeline          a ring of five buffers, 4 KB of x and of y each, which one thread fills by bulk copies, as far
                      ahead as there are buffers

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

# the same by bulk copies of wide tiles: a warp for each is enough
X_BULK = Buffers.double(CudaDMASequential(1, 32, TILE, TILE, 4 * WIDE_TILE, engine="bulk"))
Y_BULK = Buffers.double(CudaDMASequential(3, 32, TILE, TILE + X_BULK.dma_threads, 4 * WIDE_TILE, engine="bulk"))

STAGES = 5
RING_TILE = 1024  # elements
RING_BYTES = 4 * RING_TILE
RING_THREADS = RING_TILE // 4  # that compute, four elements each
RING = Pipeline(STAGES, 1, RING_THREADS // 32)  # one thread fills it; a lane of each compute warp releases its buffers

HALF = np.float32(0.5)


@cuda.jit(device=True)
def compute(a, x, y, intensity):
    """Return a x + y, with some additional multiply-adds."""
    value = a * x + y
    for _ in range(intensity):
        value = HALF * value + x
    return value


@cuda.jit(device=True)
def compute_four(a, x, y, intensity):
    """Compute four adjacent elements."""
    first, second = compute(a, x[0], y[0], intensity), compute(a, x[1], y[1], intensity)
    return first, second, compute(a, x[2], y[2], intensity), compute(a, x[3], y[3], intensity)


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
        cuda.syncthreads()  # a thread uses what it copied itself: this measures the staging alone
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


@cuda.jit
def cudadma_double(n, a, x, y, intensity):
    x_tiles = cuda.shared.array((2, TILE), np.float32, 16)
    y_tiles = cuda.shared.array((2, TILE), np.float32, 16)
    thread = cuda.threadIdx.x
    start = cuda.blockIdx.x * TILE
    step = cuda.gridDim.x * TILE
    tiles = (n - start + step - 1) // step

    if thread < TILE:
        X_BUFFERS.start()
        Y_BUFFERS.start()
        for i in range(tiles):
            X_BUFFERS.wait_for_dma_finish(i)
            Y_BUFFERS.wait_for_dma_finish(i)
            own_x = x_tiles[X_BUFFERS.buffer(i), thread]
            own_y = y_tiles[Y_BUFFERS.buffer(i), thread]
            y[start + i * step + thread] = compute(a, own_x, own_y, intensity)
            X_BUFFERS.start_async_dma(i, tiles)
            Y_BUFFERS.start_async_dma(i, tiles)
    elif X_BUFFERS.owns_this_thread():
        registers = cuda.local.array(X.register_bytes, np.uint8, 16)
        for i in range(X_BUFFERS.first_tile(), tiles, X_BUFFERS.tile_step()):
            source = x[start + i * step :]
            X_BUFFERS.start_xfer_async(source, registers)
            X_BUFFERS.wait_xfer_finish(i, tiles, source, x_tiles[X_BUFFERS.buffer(i)], registers)
        X_BUFFERS.finish()
    elif Y_BUFFERS.owns_this_thread():
        registers = cuda.local.array(X.register_bytes, np.uint8, 16)
        for i in range(Y_BUFFERS.first_tile(), tiles, Y_BUFFERS.tile_step()):
            source = y[start + i * step :]
            Y_BUFFERS.start_xfer_async(source, registers)
            Y_BUFFERS.wait_xfer_finish(i, tiles, source, y_tiles[Y_BUFFERS.buffer(i)], registers)
        Y_BUFFERS.finish()


@cuda.jit
def bulk(n, a, x, y, intensity):
    x_tiles = cuda.shared.array((2, WIDE_TILE), np.float32, 128)
    y_tiles = cuda.shared.array((2, WIDE_TILE), np.float32, 128)
    thread = cuda.threadIdx.x
    start = cuda.blockIdx.x * WIDE_TILE
    step = cuda.gridDim.x * WIDE_TILE
    tiles = (n - start + step - 1) // step

    if thread < TILE:
        X_BULK.start()
        Y_BULK.start()
        for i in range(tiles):
            X_BULK.wait_for_dma_finish(i)
            Y_BULK.wait_for_dma_finish(i)
            own_x = ptx.ld_v4(x_tiles, (X_BULK.buffer(i), 4 * thread))
            own_y = ptx.ld_v4(y_tiles, (Y_BULK.buffer(i), 4 * thread))
            X_BULK.start_async_dma(i, tiles)
            Y_BULK.start_async_dma(i, tiles)
            ptx.st_v4(y, start + i * step + 4 * thread, compute_four(a, own_x, own_y, intensity))
    elif X_BULK.owns_this_thread():
        for i in range(X_BULK.first_tile(), tiles, X_BULK.tile_step()):
            X_BULK.execute_dma(i, tiles, x[start + i * step :], x_tiles[X_BULK.buffer(i)])
        X_BULK.finish()
    elif Y_BULK.owns_this_thread():
        for i in range(Y_BULK.first_tile(), tiles, Y_BULK.tile_step()):
            Y_BULK.execute_dma(i, tiles, y[start + i * step :], y_tiles[Y_BULK.buffer(i)])
        Y_BULK.finish()


@cuda.jit
def pipeline(n, a, x, y, intensity):
    bars = cuda.shared.array(RING.barriers, np.uint64)
    x_tiles = cuda.shared.array((STAGES, RING_TILE), np.float32, 128)
    y_tiles = cuda.shared.array((STAGES, RING_TILE), np.float32, 128)
    thread = cuda.threadIdx.x
    start = cuda.blockIdx.x * RING_TILE
    step = cuda.gridDim.x * RING_TILE
    tiles = (n - start + step - 1) // step

    RING.start(bars)
    if thread == RING_THREADS:  # the producer
        for i in range(tiles):
            first, to, full = start + i * step, (RING.stage(i), 0), RING.full(i)
            RING.producer_acquire(bars, i)
            ptx.cp_async_bulk_global_to_shared(x_tiles, to, x, first, RING_BYTES, bars, full)
            ptx.cp_async_bulk_global_to_shared(y_tiles, to, y, first, RING_BYTES, bars, full)
            RING.producer_commit(bars, i, 2 * RING_BYTES)
    elif thread < RING_THREADS:
        for i in range(tiles):
            RING.consumer_wait(bars, i)
            own_x = ptx.ld_v4(x_tiles, (RING.stage(i), 4 * thread))
            own_y = ptx.ld_v4(y_tiles, (RING.stage(i), 4 * thread))
            cuda.syncwarp()
            if thread % 32 == 0:
                RING.consumer_release(bars, i)
            ptx.st_v4(y, start + i * step + 4 * thread, compute_four(a, own_x, own_y, intensity))


KERNELS = (
    (saxpy, TILE),
    (staged, TILE),
    (staged_float4, TILE),
    (cudadma, block_size(X, Y)),
    (cudadma_double, block_size(X_BUFFERS, Y_BUFFERS)),
    (bulk, block_size(X_BULK, Y_BULK)),
    (pipeline, RING_THREADS + 32),
)
"""kernels, each with the threads of a CTA"""


def expected(a, x, y, intensity):
    """Return the kernels' results in float32.  `a` is a power of two, so the results round once whether fused or
    not."""
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
