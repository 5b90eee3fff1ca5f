"""DGEMM for Fermi, C = A B: the algorithms of "Fast Implementation of DGEMM on Fermi GPU" (Tan et al., SC 2011).

    python examples/dgemm.py [m n k]             run it: every launch is checked
    wsemu check examples/dgemm.py [m n k]        the same, with a report

A CTA computes 64 x 64 numbers of C from blocks of 64 x 16 of A and 16 x 64 of B, a thread 4 x 4 of them in registers.

    algorithm_1        all threads fill a block, then compute; accesses of 8 bytes
    algorithm_2        the next block is loaded into registers before the present one is used
    algorithm_3        accesses of 16 bytes; a block in two halves, one is filled while the other is used
    algorithm_3_dma    the same with DMA warps that fill the halves, in the manner of CudaDMA
    algorithm_3_bulk   the same, but one thread each starts bulk copies for A and for B (sm_90)
    algorithm_3_ring   a ring of four halves: 16 lanes of a warp copy a column of A or a row of B each

The matrices are column-major.  A column of A is contiguous in memory, a row of B is not: B is transposed beforehand.
(The paper transposes A, which does the same for row-major matrices.)  NumPy shows column-major memory as the transposed
array, which is how the kernels index it: a[k, row], b[k, column], c[column, row].
"""

import sys

import numpy as np

from wsemu import cuda, ptx
from wsemu.patterns import Buffers, CudaDMAStrided, Pipeline

BLOCK = 64  # rows and columns of C that a CTA computes
DEPTH = 16  # columns of A, rows of B in a block
HALF = DEPTH // 2
THREADS = 256  # that compute, 16 x 16

SIDE = 16  # of the 16 x 16 threads
WIDE = 64  # threads that load 8 bytes each of a column of A or a row of B
PAIRS = 32  # threads that load 16 bytes each

DMA_THREADS = 64  # for A, and for B: each moves 4 times 16 bytes of the 8 columns or rows of a half
DMA_BLOCK = THREADS + 2 * DMA_THREADS
ROW_BYTES = 8 * BLOCK  # of a column of A or a row of B in a block

STAGES = 4
RING = Pipeline(STAGES, 2 * HALF, THREADS // 32)  # a lane of each compute warp releases its halves

NOTHING = ((0.0,) * 4,) * 4


@cuda.jit(device=True)
def add_row(a, b, row):
    """Multiply one number of A by four of B, and add the products to four of C: 4 dfma."""
    return row[0] + a * b[0], row[1] + a * b[1], row[2] + a * b[2], row[3] + a * b[3]


@cuda.jit(device=True)
def add_products(a, b, sums):
    """Multiply four numbers of A by four of B, and add the products to 4 x 4 of C: 16 dfma."""
    return (
        add_row(a[0], b, sums[0]),
        add_row(a[1], b, sums[1]),
        add_row(a[2], b, sums[2]),
        add_row(a[3], b, sums[3]),
    )


# -- accesses of 8 bytes ----------------------------------------------------------------------------------------------
@cuda.jit(device=True)
def four(tile, k, i):
    """Return four numbers of a row of a tile, 16 apart: 16 threads read 128 adjacent bytes."""
    return tile[k, i], tile[k, i + 16], tile[k, i + 32], tile[k, i + 48]


@cuda.jit(device=True)
def fetch(matrix, k, i):
    """Return a thread's share of the block that begins at k: every fourth row, starting with its own."""
    return matrix[k, i], matrix[k + 4, i], matrix[k + 8, i], matrix[k + 12, i]


@cuda.jit(device=True)
def put(tile, k, i, numbers):
    """Store what `fetch` loaded."""
    tile[k, i], tile[k + 4, i], tile[k + 8, i], tile[k + 12, i] = numbers


@cuda.jit(device=True)
def multiply(a_tile, b_tile, sums):
    """Run the inner loop of a block: per k 8 loads of 8 bytes and 16 dfma (figure 3)."""
    x = cuda.threadIdx.x % SIDE
    y = cuda.threadIdx.x // SIDE
    for k in range(DEPTH):
        sums = add_products(four(a_tile, k, x), four(b_tile, k, y), sums)
    return sums


@cuda.jit(device=True)
def write(c, sums):
    """Store the 4 x 4 numbers of a thread, 16 apart in rows and columns."""
    row = cuda.blockIdx.x * BLOCK + cuda.threadIdx.x % SIDE
    column = cuda.blockIdx.y * BLOCK + cuda.threadIdx.x // SIDE
    for j in range(4):
        for i in range(4):
            c[column + SIDE * j, row + SIDE * i] = sums[i][j]


@cuda.jit
def algorithm_1(a, b, c):
    a_tile = cuda.shared.array((DEPTH, BLOCK), np.float64)
    b_tile = cuda.shared.array((DEPTH, BLOCK), np.float64)
    i = cuda.threadIdx.x % WIDE  # for the loads the threads are 64 x 4
    k = cuda.threadIdx.x // WIDE
    row = cuda.blockIdx.x * BLOCK + i
    column = cuda.blockIdx.y * BLOCK + i
    sums = NOTHING

    for first in range(0, a.shape[0], DEPTH):
        put(a_tile, k, i, fetch(a, first + k, row))
        put(b_tile, k, i, fetch(b, first + k, column))
        cuda.syncthreads()
        sums = multiply(a_tile, b_tile, sums)
        cuda.syncthreads()
    write(c, sums)


@cuda.jit
def algorithm_2(a, b, c):
    a_tile = cuda.shared.array((DEPTH, BLOCK), np.float64)
    b_tile = cuda.shared.array((DEPTH, BLOCK), np.float64)
    i = cuda.threadIdx.x % WIDE
    k = cuda.threadIdx.x // WIDE
    row = cuda.blockIdx.x * BLOCK + i
    column = cuda.blockIdx.y * BLOCK + i
    sums = NOTHING

    put(a_tile, k, i, fetch(a, k, row))
    put(b_tile, k, i, fetch(b, k, column))
    cuda.syncthreads()
    for first in range(DEPTH, a.shape[0], DEPTH):
        next_a = fetch(a, first + k, row)  # 8 registers more; in flight while the block is used
        next_b = fetch(b, first + k, column)
        sums = multiply(a_tile, b_tile, sums)
        cuda.syncthreads()
        put(a_tile, k, i, next_a)
        put(b_tile, k, i, next_b)
        cuda.syncthreads()
    sums = multiply(a_tile, b_tile, sums)
    write(c, sums)


# -- accesses of 16 bytes ---------------------------------------------------------------------------------------------
@cuda.jit(device=True)
def two_pairs(tile, half, k, i):
    """Return four numbers of a row of a half, two at i and two 32 further on: 16 threads read 256 adjacent bytes."""
    first, second = ptx.ld_v2(tile, (half, k, i))
    third, fourth = ptx.ld_v2(tile, (half, k, i + 32))
    return first, second, third, fourth


@cuda.jit(device=True)
def multiply_half(a_tile, b_tile, half, sums):
    """Run the inner loop of half a block: per k 4 loads of 16 bytes and 16 dfma."""
    x = 2 * (cuda.threadIdx.x % SIDE)
    y = 2 * (cuda.threadIdx.x // SIDE)
    for k in range(HALF):
        sums = add_products(two_pairs(a_tile, half, k, x), two_pairs(b_tile, half, k, y), sums)
    return sums


@cuda.jit(device=True)
def write_pairs(c, sums):
    """Store the 4 x 4 numbers of a thread, two pairs of rows and two pairs of columns that are 32 apart."""
    row = cuda.blockIdx.x * BLOCK + 2 * (cuda.threadIdx.x % SIDE)
    column = cuda.blockIdx.y * BLOCK + 2 * (cuda.threadIdx.x // SIDE)
    for j in range(4):
        place = column + j % 2 + 32 * (j // 2)
        ptx.st_v2(c, (place, row), (sums[0][j], sums[1][j]))
        ptx.st_v2(c, (place, row + 32), (sums[2][j], sums[3][j]))


@cuda.jit(device=True)
def copy_half(tile, half, matrix, k, first):
    """Fill half a block that begins at (k, first): a thread copies 16 bytes."""
    i = 2 * (cuda.threadIdx.x % PAIRS)  # the threads are 32 x 8
    j = cuda.threadIdx.x // PAIRS
    ptx.st_v2(tile, (half, j, i), ptx.ld_v2(matrix, (k + j, first + i)))


@cuda.jit
def algorithm_3(a, b, c):
    a_tile = cuda.shared.array((2, HALF, BLOCK), np.float64, 16)
    b_tile = cuda.shared.array((2, HALF, BLOCK), np.float64, 16)
    row = cuda.blockIdx.x * BLOCK
    column = cuda.blockIdx.y * BLOCK
    depth = a.shape[0]
    sums = NOTHING

    copy_half(a_tile, 0, a, 0, row)
    copy_half(b_tile, 0, b, 0, column)
    cuda.syncthreads()
    for k in range(0, depth, DEPTH):
        copy_half(a_tile, 1, a, k + HALF, row)
        copy_half(b_tile, 1, b, k + HALF, column)
        sums = multiply_half(a_tile, b_tile, 0, sums)
        cuda.syncthreads()  # the second half is there, the first one was used
        if k + DEPTH < depth:
            copy_half(a_tile, 0, a, k + DEPTH, row)
            copy_half(b_tile, 0, b, k + DEPTH, column)
        sums = multiply_half(a_tile, b_tile, 1, sums)
        cuda.syncthreads()  # and the reverse
    write_pairs(c, sums)


@cuda.jit(device=True)
def halves_by_dma(a_dma, b_dma, a, b, c):
    """Run algorithm 3 with DMA warps that fill one half while the other is used."""
    a_tile = cuda.shared.array((2, HALF, BLOCK), np.float64, 16)
    b_tile = cuda.shared.array((2, HALF, BLOCK), np.float64, 16)
    row = cuda.blockIdx.x * BLOCK
    column = cuda.blockIdx.y * BLOCK
    halves = a.shape[0] // HALF
    a_halves = Buffers(a_dma, stages=2, ids=2)  # manual double buffering
    b_halves = Buffers(b_dma, stages=2, ids=2)

    if cuda.threadIdx.x < THREADS:
        sums = NOTHING
        a_halves.start()
        b_halves.start()
        for i in range(halves):
            a_halves.wait_for_dma_finish(i)
            b_halves.wait_for_dma_finish(i)
            sums = multiply_half(a_tile, b_tile, a_halves.buffer(i), sums)
            a_halves.start_async_dma(i, halves)
            b_halves.start_async_dma(i, halves)
        write_pairs(c, sums)
    elif a_halves.owns_this_thread():
        for i in range(a_halves.first_tile(), halves, a_halves.tile_step()):
            a_halves.execute_dma(i, halves, a[i * HALF :, row:], a_tile[a_halves.buffer(i)])
        a_halves.finish()
    elif b_halves.owns_this_thread():
        for i in range(b_halves.first_tile(), halves, b_halves.tile_step()):
            b_halves.execute_dma(i, halves, b[i * HALF :, column:], b_tile[b_halves.buffer(i)])
        b_halves.finish()


@cuda.jit
def algorithm_3_dma(a, b, c):
    a_dma = CudaDMAStrided(1, DMA_THREADS, THREADS, THREADS, ROW_BYTES, HALF, 8 * a.shape[1], ROW_BYTES, alignment=16)
    b_dma = CudaDMAStrided(
        3, DMA_THREADS, THREADS, THREADS + DMA_THREADS, ROW_BYTES, HALF, 8 * b.shape[1], ROW_BYTES, alignment=16
    )
    halves_by_dma(a_dma, b_dma, a, b, c)


@cuda.jit
def algorithm_3_bulk(a, b, c):
    a_dma = CudaDMAStrided(1, 32, THREADS, THREADS, ROW_BYTES, HALF, 8 * a.shape[1], ROW_BYTES, engine="bulk")
    b_dma = CudaDMAStrided(3, 32, THREADS, THREADS + 32, ROW_BYTES, HALF, 8 * b.shape[1], ROW_BYTES, engine="bulk")
    halves_by_dma(a_dma, b_dma, a, b, c)


@cuda.jit
def algorithm_3_ring(a, b, c):
    bars = cuda.shared.array(RING.barriers, np.uint64)
    a_tile = cuda.shared.array((STAGES, HALF, BLOCK), np.float64, 16)
    b_tile = cuda.shared.array((STAGES, HALF, BLOCK), np.float64, 16)
    row = cuda.blockIdx.x * BLOCK
    column = cuda.blockIdx.y * BLOCK
    halves = a.shape[0] // HALF
    thread = cuda.threadIdx.x

    RING.start(bars)
    if thread < THREADS:
        sums = NOTHING
        for i in range(halves):
            RING.consumer_wait(bars, i)
            sums = multiply_half(a_tile, b_tile, RING.stage(i), sums)
            cuda.syncwarp()
            if thread % 32 == 0:
                RING.consumer_release(bars, i)
        write_pairs(c, sums)
    elif thread < THREADS + 2 * HALF:  # the producers
        k = thread % HALF
        for i in range(halves):
            to, full = (RING.stage(i), k, 0), RING.full(i)
            RING.producer_acquire(bars, i)
            if thread < THREADS + HALF:
                ptx.cp_async_bulk_global_to_shared(a_tile, to, a, (i * HALF + k, row), ROW_BYTES, bars, full)
            else:
                ptx.cp_async_bulk_global_to_shared(b_tile, to, b, (i * HALF + k, column), ROW_BYTES, bars, full)
            RING.producer_commit(bars, i, ROW_BYTES)


KERNELS = (
    (algorithm_1, THREADS),
    (algorithm_2, THREADS),
    (algorithm_3, THREADS),
    (algorithm_3_dma, DMA_BLOCK),
    (algorithm_3_bulk, THREADS + 64),
    (algorithm_3_ring, THREADS + 32),
)
"""kernels, each with the threads of a CTA"""


def arguments(a, b):
    """Return a kernel's arguments for the product of column-major matrices: columns of A, rows of B, and C."""
    return a.T, np.ascontiguousarray(b), np.zeros((b.shape[1], a.shape[0]))


def main():
    given = sys.argv[1:] or ["128", "64", "64"]
    if len(given) != 3 or not all(text.isdecimal() for text in given):
        sys.exit(f"{' '.join(given)}: give m, n and k, such as 128 64 64")
    m, n, k = map(int, given)
    for name, size, of in (("m", m, BLOCK), ("n", n, BLOCK), ("k", k, DEPTH)):
        if size < 1 or size % of:
            sys.exit(f"{name} is {size}: give a positive multiple of {of}, such as {max(-(-size // of), 1) * of}")
    random = np.random.default_rng(1)
    a = np.asfortranarray(random.integers(-8, 9, (m, k)).astype(np.float64))  # sums of such products are exact
    b = np.asfortranarray(random.integers(-8, 9, (k, n)).astype(np.float64))

    for kernel, threads in KERNELS:
        columns, rows, c = arguments(a, b)
        kernel[(m // BLOCK, n // BLOCK), threads](columns, rows, c)
        name = kernel.py_func.__name__
        wrong = np.count_nonzero(a @ b != c.T)
        if wrong:
            sys.exit(f"{name}: {wrong} of {c.size} numbers differ from NumPy's")
        print(f"{name}: {m} x {k} times {k} x {n}, equal to NumPy's")


if __name__ == "__main__":
    main()
