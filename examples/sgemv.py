"""SGEMV with DMA warps: y = alpha A x, as in figure 4 and section 6.1 of the CudaDMA paper (SC 2011).

    python examples/sgemv.py [n [version]]             run it: every launch is checked
    wsemu check examples/sgemv.py [n [version]]        the same, with a report

A CTA computes 64 rows, and each row needs the whole vector: tile by tile it comes into shared memory.  The matrix,
column by column in memory, is used once; it is staged only so that more loads are in flight.

    reference       all threads load the vector, and the matrix into registers
    vec-single      a DMA warp brings the vector, into one buffer
    vec-double      two buffers, each with a DMA warp of its own
    vec-manual      two buffers that the same DMA warp fills in turn
    both-single     four DMA warps bring the matrix as well: figure 4, the kernel `sgemv`
    both-double     two buffers of each, each with DMA warps of its own
    both-manual     two buffers of each, filled by the same DMA warps in turn
    both-bulk       the same, but one thread each starts bulk copies of the vector and of the columns (sm_90)
    both-pipeline   a ring of ten buffers for both, with a warp for each: 16 of its lanes copy a column each, as far
                    ahead as there are buffers

Without a version it is figure 4's; `all` stands for all.
"""

import sys

import numpy as np

from wsemu import cuda, ptx
from wsemu.patterns import Buffers, CudaDMASequential, CudaDMAStrided, Pipeline, block_size

COMPUTE_THREADS = 64
COLUMN_BYTES = 4 * COMPUTE_THREADS  # of a column of the matrix's tile
VECTOR_DMA_THREADS = 32
MATRIX_DMA_THREADS = 128
BLOCK = COMPUTE_THREADS + VECTOR_DMA_THREADS + MATRIX_DMA_THREADS
TILE = 128  # columns of the matrix, elements of the vector
HALF_TILE = TILE // 2  # if there are two of each
STEP_BYTES = TILE * COLUMN_BYTES // MATRIX_DMA_THREADS  # of a DMA thread of the matrix: its whole part of a tile
HALF_STEP_BYTES = STEP_BYTES // 2
BATCH = 32  # loads from shared memory, one after the other

VECTOR = CudaDMASequential(1, VECTOR_DMA_THREADS, COMPUTE_THREADS, COMPUTE_THREADS, 4 * TILE, alignment=16)
HALF_VECTOR = CudaDMASequential(1, VECTOR_DMA_THREADS, COMPUTE_THREADS, COMPUTE_THREADS, 4 * HALF_TILE, alignment=16)

SINGLE, DOUBLE, MANUAL = Buffers.single(VECTOR), Buffers.double(VECTOR), Buffers.manual_double(VECTOR)
HALF_DOUBLE, HALF_MANUAL = Buffers.double(HALF_VECTOR), Buffers.manual_double(HALF_VECTOR)
VECTOR_IN_BULK = CudaDMASequential(1, 32, COMPUTE_THREADS, COMPUTE_THREADS, 4 * HALF_TILE, engine="bulk")
HALF_BULK = Buffers.manual_double(VECTOR_IN_BULK)
FIRST_MATRIX_THREAD = COMPUTE_THREADS + VECTOR_DMA_THREADS
FIRST_MATRIX_THREAD_DOUBLE = COMPUTE_THREADS + HALF_DOUBLE.dma_threads
BLOCK_DOUBLE = FIRST_MATRIX_THREAD_DOUBLE + 2 * MATRIX_DMA_THREADS

STAGES = 10
RING_TILE = 16  # columns of a buffer of the ring, and lanes of its warp that copy one each
RING = Pipeline(STAGES, RING_TILE, COMPUTE_THREADS // 32)  # a lane of each compute warp releases its buffers


@cuda.jit(device=True)
def staged_product(total, matrix_tile, vector_tile, columns):
    """Return `total` plus the products of a thread's row of a tile with the vector, BATCH loads at a time."""
    for first in range(0, columns, BATCH):
        for j in range(first, first + BATCH):
            total += matrix_tile[j, cuda.threadIdx.x] * vector_tile[j]
    return total


@cuda.jit
def sgemv(n, alpha, matrix, x, y):
    vector_tile = cuda.shared.array(TILE, np.float32, 16)
    matrix_tile = cuda.shared.array((TILE, COMPUTE_THREADS), np.float32, 16)
    columns = CudaDMAStrided(
        2, MATRIX_DMA_THREADS, COMPUTE_THREADS, FIRST_MATRIX_THREAD,
        COLUMN_BYTES, TILE, 4 * n, COLUMN_BYTES, alignment=16, bytes_per_thread=STEP_BYTES,
    )  # fmt: skip
    thread = cuda.threadIdx.x
    first_row = cuda.blockIdx.x * COMPUTE_THREADS

    if thread < COMPUTE_THREADS:
        VECTOR.start_async_dma()
        columns.start_async_dma()
        total = np.float32(0)
        for _ in range(0, n, TILE):
            VECTOR.wait_for_dma_finish()
            columns.wait_for_dma_finish()
            total = staged_product(total, matrix_tile, vector_tile, TILE)
            VECTOR.start_async_dma()
            columns.start_async_dma()
        y[first_row + thread] = alpha * total

    elif VECTOR.owns_this_thread():
        registers = cuda.local.array(VECTOR.register_bytes, np.uint8, 16)
        for column in range(0, n, TILE):
            VECTOR.start_xfer_async(x[column:], registers)  # while the tile is still in use
            VECTOR.wait_xfer_finish(x[column:], vector_tile, registers)
        VECTOR.wait_for_dma_start()  # answers the compute warps' last arrive

    elif columns.owns_this_thread():
        registers = cuda.local.array(STEP_BYTES, np.uint8, 16)
        for column in range(0, n, TILE):
            source = matrix[first_row:, column:]
            columns.start_xfer_async(source, registers)
            columns.wait_xfer_finish(source, matrix_tile, registers)
        columns.wait_for_dma_start()


@cuda.jit(device=True)
def load_row(elements, matrix, row, column):
    """Start to load a tile's part of a row into registers: it is used once, so it need not stay in a cache."""
    for j in range(TILE):
        elements[j] = ptx.ld_cs(matrix, (row, column + j))


@cuda.jit(device=True)
def product(total, elements, vector_tile):
    """Return `total` plus the products of a tile of the vector with the elements of a row."""
    for j in range(TILE):
        total += elements[j] * vector_tile[j]
    return total


@cuda.jit
def reference(n, alpha, matrix, x, y):
    vector_tile = cuda.shared.array(TILE, np.float32, 16)
    elements = cuda.local.array(TILE, np.float32)
    thread = cuda.threadIdx.x
    row = cuda.blockIdx.x * COMPUTE_THREADS + thread
    total = np.float32(0)
    for column in range(0, n, TILE):
        load_row(elements, matrix, row, column)  # in flight while all wait for the vector
        for j in range(thread, TILE, COMPUTE_THREADS):
            vector_tile[j] = x[column + j]
        cuda.syncthreads()
        total = product(total, elements, vector_tile)
        cuda.syncthreads()
    y[row] = alpha * total


@cuda.jit(device=True)
def fill(vector, tiles, x, size, vector_tile):
    """Load the vector by DMA warps, `size` elements per tile, while the buffer is still in use."""
    registers = cuda.local.array(vector.pattern.register_bytes, np.uint8, 16)
    for i in range(vector.first_tile(), tiles, vector.tile_step()):
        vector.start_xfer_async(x[i * size :], registers)
        vector.wait_xfer_finish(i, tiles, x[i * size :], vector_tile[vector.buffer(i)], registers)
    vector.finish()


# -- the vector alone -------------------------------------------------------------------------------------------------
@cuda.jit(device=True)
def vec(vector, tile, n, alpha, matrix, x, y):
    """Load the vector by DMA warps into the buffers of `tile`, and the matrix by each thread into registers."""
    tiles = n // TILE
    if cuda.threadIdx.x < COMPUTE_THREADS:
        elements = cuda.local.array(TILE, np.float32)
        row = cuda.blockIdx.x * COMPUTE_THREADS + cuda.threadIdx.x
        total = np.float32(0)
        vector.start()
        for i in range(tiles):
            load_row(elements, matrix, row, i * TILE)
            vector.wait_for_dma_finish(i)
            total = product(total, elements, tile[vector.buffer(i)])
            vector.start_async_dma(i, tiles)
        y[row] = alpha * total
    elif vector.owns_this_thread():
        fill(vector, tiles, x, TILE, tile)


@cuda.jit
def vec_single(n, alpha, matrix, x, y):
    tile = cuda.shared.array((1, TILE), np.float32, 16)
    vec(SINGLE, tile, n, alpha, matrix, x, y)


@cuda.jit
def vec_double(n, alpha, matrix, x, y):
    tile = cuda.shared.array((2, TILE), np.float32, 16)
    vec(DOUBLE, tile, n, alpha, matrix, x, y)


@cuda.jit
def vec_manual(n, alpha, matrix, x, y):
    tile = cuda.shared.array((2, TILE), np.float32, 16)
    vec(MANUAL, tile, n, alpha, matrix, x, y)


# -- vector and matrix ------------------------------------------------------------------------------------------------
@cuda.jit(device=True)
def fill_columns(columns, tiles, first_row, matrix, matrix_tile):
    """Load the columns of a CTA's rows by DMA warps: two tiles are in flight, while both buffers may be in use."""
    registers = cuda.local.array(HALF_STEP_BYTES, np.uint8, 16)
    others = cuda.local.array(HALF_STEP_BYTES, np.uint8, 16)
    step = columns.tile_step()
    last = tiles - 2 * step + columns.first_tile()  # but one
    columns.start_xfer_async(matrix[first_row:, columns.first_tile() * HALF_TILE :], registers)
    for i in range(columns.first_tile(), last, 2 * step):
        even, odd = matrix[first_row:, i * HALF_TILE :], matrix[first_row:, (i + step) * HALF_TILE :]
        columns.start_xfer_async(odd, others)
        columns.wait_xfer_finish(i, tiles, even, matrix_tile[columns.buffer(i)], registers)
        columns.start_xfer_async(matrix[first_row:, (i + 2 * step) * HALF_TILE :], registers)
        columns.wait_xfer_finish(i + step, tiles, odd, matrix_tile[columns.buffer(i + step)], others)
    even, odd = matrix[first_row:, last * HALF_TILE :], matrix[first_row:, (last + step) * HALF_TILE :]
    columns.start_xfer_async(odd, others)
    columns.wait_xfer_finish(last, tiles, even, matrix_tile[columns.buffer(last)], registers)
    columns.wait_xfer_finish(last + step, tiles, odd, matrix_tile[columns.buffer(last + step)], others)
    columns.finish()


@cuda.jit(device=True)
def both(vector, columns, vector_tile, matrix_tile, n, alpha, matrix, x, y):
    """Load the vector and the matrix by DMA warps into two buffers each; compute threads use only shared memory."""
    thread = cuda.threadIdx.x
    first_row = cuda.blockIdx.x * COMPUTE_THREADS
    tiles = n // HALF_TILE
    if thread < COMPUTE_THREADS:
        total = np.float32(0)
        vector.start()
        columns.start()
        for i in range(tiles):
            vector.wait_for_dma_finish(i)
            columns.wait_for_dma_finish(i)
            total = staged_product(total, matrix_tile[columns.buffer(i)], vector_tile[vector.buffer(i)], HALF_TILE)
            vector.start_async_dma(i, tiles)
            columns.start_async_dma(i, tiles)
        y[first_row + thread] = alpha * total
    elif vector.owns_this_thread():
        fill(vector, tiles, x, HALF_TILE, vector_tile)
    elif columns.owns_this_thread():
        fill_columns(columns, tiles, first_row, matrix, matrix_tile)


@cuda.jit
def both_double(n, alpha, matrix, x, y):
    vector_tile = cuda.shared.array((2, HALF_TILE), np.float32, 16)
    matrix_tile = cuda.shared.array((2, HALF_TILE, COMPUTE_THREADS), np.float32, 16)
    columns = CudaDMAStrided(
        3, MATRIX_DMA_THREADS, COMPUTE_THREADS, FIRST_MATRIX_THREAD_DOUBLE,
        COLUMN_BYTES, HALF_TILE, 4 * n, COLUMN_BYTES, alignment=16, bytes_per_thread=HALF_STEP_BYTES,
    )  # fmt: skip
    both(HALF_DOUBLE, Buffers(columns, stages=2, ids=2, sets=2), vector_tile, matrix_tile, n, alpha, matrix, x, y)


@cuda.jit
def both_manual(n, alpha, matrix, x, y):
    vector_tile = cuda.shared.array((2, HALF_TILE), np.float32, 16)
    matrix_tile = cuda.shared.array((2, HALF_TILE, COMPUTE_THREADS), np.float32, 16)
    columns = CudaDMAStrided(
        3, MATRIX_DMA_THREADS, COMPUTE_THREADS, FIRST_MATRIX_THREAD,
        COLUMN_BYTES, HALF_TILE, 4 * n, COLUMN_BYTES, alignment=16, bytes_per_thread=HALF_STEP_BYTES,
    )  # fmt: skip
    both(HALF_MANUAL, Buffers(columns, stages=2, ids=2), vector_tile, matrix_tile, n, alpha, matrix, x, y)


@cuda.jit
def both_bulk(n, alpha, matrix, x, y):
    vector_tile = cuda.shared.array((2, HALF_TILE), np.float32, 16)
    matrix_tile = cuda.shared.array((2, HALF_TILE, COMPUTE_THREADS), np.float32, 16)
    columns = CudaDMAStrided(
        3, 32, COMPUTE_THREADS, FIRST_MATRIX_THREAD, COLUMN_BYTES, HALF_TILE, 4 * n, COLUMN_BYTES, engine="bulk"
    )
    both(HALF_BULK, Buffers(columns, stages=2, ids=2), vector_tile, matrix_tile, n, alpha, matrix, x, y)


@cuda.jit
def both_pipeline(n, alpha, matrix, x, y):
    bars = cuda.shared.array(RING.barriers, np.uint64)
    vector_tile = cuda.shared.array((STAGES, RING_TILE), np.float32, 128)
    matrix_tile = cuda.shared.array((STAGES, RING_TILE, COMPUTE_THREADS), np.float32, 128)
    thread = cuda.threadIdx.x
    lane = thread % 32
    first_row = cuda.blockIdx.x * COMPUTE_THREADS
    tiles = n // RING_TILE

    RING.start(bars)
    if thread < COMPUTE_THREADS:
        total = np.float32(0)
        for i in range(tiles):
            RING.consumer_wait(bars, i)
            column, element = matrix_tile[RING.stage(i)], vector_tile[RING.stage(i)]
            for j in range(RING_TILE):
                total += column[j, thread] * element[j]
            cuda.syncwarp()
            if lane == 0:
                RING.consumer_release(bars, i)
        y[first_row + thread] = alpha * total
    elif lane < RING_TILE:  # the producers: a warp for each buffer
        for i in range((thread - COMPUTE_THREADS) // 32, tiles, STAGES):
            stage, full, first = RING.stage(i), RING.full(i), i * RING_TILE
            column, moved = matrix[first_row:, first + lane :], COLUMN_BYTES
            RING.producer_acquire(bars, i)
            ptx.cp_async_bulk_global_to_shared_bytes(matrix_tile[stage, lane], 0, column, 0, COLUMN_BYTES, bars, full)
            if lane == 0:
                ptx.cp_async_bulk_global_to_shared(vector_tile, (stage, 0), x, first, 4 * RING_TILE, bars, full)
                moved += 4 * RING_TILE
            RING.producer_commit(bars, i, moved)


VERSIONS = {
    "both-single": (sgemv, BLOCK),
    "reference": (reference, COMPUTE_THREADS),
    "vec-single": (vec_single, block_size(SINGLE)),
    "vec-double": (vec_double, block_size(DOUBLE)),
    "vec-manual": (vec_manual, block_size(MANUAL)),
    "both-double": (both_double, BLOCK_DOUBLE),
    "both-manual": (both_manual, BLOCK),
    "both-bulk": (both_bulk, FIRST_MATRIX_THREAD + 32),
    "both-pipeline": (both_pipeline, COMPUTE_THREADS + 32 * STAGES),
}
"""name -> kernel, threads of a CTA"""


def fma(a, b, c):
    """Return float32 a * b + c with one rounding: the sum is rounded to odd in float64, then to nearest."""
    product = a.astype(np.float64) * b
    total = product + c
    rest = total - product
    error = (product - (total - rest)) + (c - rest)
    bits = total.view(np.int64)
    toward = np.where((error > 0) == (total > 0), 1, -1)
    odd = np.where((error != 0) & (bits % 2 == 0), bits + toward, bits)
    return odd.view(np.float64).astype(np.float32)


def expected(alpha, matrix, x):
    """Return the kernels' sums in their order: column by column, each product and sum with one rounding."""
    total = np.zeros(len(matrix), np.float32)
    for column in range(len(x)):
        total = fma(matrix[:, column], x[column], total)
    return alpha * total


def main():
    given = sys.argv[1:] or ["1024"]
    n = int(given[0]) if given[0].isdecimal() else 0
    version = given[1] if len(given) > 1 else "both-single"
    if len(given) > 2 or version not in (*VERSIONS, "all"):
        sys.exit(f"{' '.join(given[1:])}: give one version: {', '.join(VERSIONS)}, or all")
    step = 2 * TILE if version in ("both-double", "all") else TILE  # each set of DMA warps takes tiles by twos
    if n < 1 or n % step:
        sys.exit(f"n is {given[0]}: give a positive multiple of {step}, such as 1024")
    random = np.random.default_rng(1)
    matrix = np.asfortranarray(random.standard_normal((n, n), np.float32))  # column by column in memory
    x = random.standard_normal(n, np.float32)
    alpha = np.float32(0.75)
    right = expected(alpha, matrix, x)

    for kernel, threads in VERSIONS.values() if version == "all" else [VERSIONS[version]]:
        name = kernel.py_func.__name__
        y = np.zeros(n, np.float32)
        kernel[n // COMPUTE_THREADS, threads](n, alpha, matrix, x, y)
        wrong = np.count_nonzero(y != right)
        if wrong:
            sys.exit(f"{name}: {wrong} of {n} rows differ from NumPy's float32 in the kernel's order")
        print(f"{name}: {n} x {n}, equal to NumPy's float32 in the kernel's order, bit for bit")


if __name__ == "__main__":
    main()
