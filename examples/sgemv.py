"""SGEMV with DMA warps: y = alpha A x, as in figure 4 of the CudaDMA paper (SC 2011).

    python examples/sgemv.py [n]             run it: every launch is checked
    wsemu check examples/sgemv.py [n]        the same, with a report

A CTA computes 128 rows.  It has 9 warps: 4 compute, 1 brings the vector and 4 the matrix into shared memory, tile by
tile.
"""

import sys

import numpy as np

from wsemu import cuda
from wsemu.patterns.base import CudaDMA

COMPUTE_THREADS = 128
VECTOR_DMA_THREADS = 32
MATRIX_DMA_THREADS = 128
BLOCK = COMPUTE_THREADS + VECTOR_DMA_THREADS + MATRIX_DMA_THREADS
TILE = 64  # columns of the matrix, elements of the vector

VECTOR = CudaDMA(1, VECTOR_DMA_THREADS, COMPUTE_THREADS, COMPUTE_THREADS)
MATRIX = CudaDMA(2, MATRIX_DMA_THREADS, COMPUTE_THREADS, COMPUTE_THREADS + VECTOR_DMA_THREADS)


@cuda.jit
def sgemv(n, alpha, matrix, x, y):
    vector_tile = cuda.shared.array(TILE, np.float32)
    matrix_tile = cuda.shared.array((TILE, COMPUTE_THREADS), np.float32)
    thread = cuda.threadIdx.x
    first_row = cuda.blockIdx.x * COMPUTE_THREADS

    if thread < COMPUTE_THREADS:
        VECTOR.start_async_dma()
        MATRIX.start_async_dma()
        total = np.float32(0)
        for _ in range(0, n, TILE):
            VECTOR.wait_for_dma_finish()
            MATRIX.wait_for_dma_finish()
            for j in range(TILE):
                total += matrix_tile[j, thread] * vector_tile[j]
            VECTOR.start_async_dma()
            MATRIX.start_async_dma()
        y[first_row + thread] = alpha * total

    elif VECTOR.owns_this_thread():
        lane = thread - VECTOR.first_dma_thread
        VECTOR.wait_for_dma_start()
        for column in range(0, n, TILE):
            for j in range(lane, TILE, VECTOR_DMA_THREADS):
                vector_tile[j] = x[column + j]
            VECTOR.finish_async_dma()
            VECTOR.wait_for_dma_start()  # the last one answers the compute warps' last arrive

    elif MATRIX.owns_this_thread():
        row = thread - MATRIX.first_dma_thread
        MATRIX.wait_for_dma_start()
        for column in range(0, n, TILE):
            for j in range(TILE):
                matrix_tile[j, row] = matrix[first_row + row, column + j]
            MATRIX.finish_async_dma()
            MATRIX.wait_for_dma_start()


def fma(a, b, c):
    """float32 a * b + c with one rounding: the sum is rounded to odd in float64, then to nearest."""
    product = a.astype(np.float64) * b
    total = product + c
    rest = total - product
    error = (product - (total - rest)) + (c - rest)
    bits = total.view(np.int64)
    toward = np.where((error > 0) == (total > 0), 1, -1)
    odd = np.where((error != 0) & (bits % 2 == 0), bits + toward, bits)
    return odd.view(np.float64).astype(np.float32)


def expected(alpha, matrix, x):
    """The kernel's sums in the kernel's order: column by column, each product and sum with one rounding."""
    total = np.zeros(len(matrix), np.float32)
    for column in range(len(x)):
        total = fma(matrix[:, column], x[column], total)
    return alpha * total


def main():
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 1024
    if n < 1 or n % COMPUTE_THREADS:
        sys.exit(f"n is {n}: give a positive multiple of {COMPUTE_THREADS}, such as 1024")
    random = np.random.default_rng(1)
    matrix = np.asfortranarray(random.standard_normal((n, n), np.float32))  # column by column in memory
    x = random.standard_normal(n, np.float32)
    y = np.zeros(n, np.float32)
    alpha = np.float32(0.75)

    sgemv[n // COMPUTE_THREADS, BLOCK](n, alpha, matrix, x, y)

    wrong = np.count_nonzero(y != expected(alpha, matrix, x))
    if wrong:
        sys.exit(f"sgemv: {wrong} of {n} rows differ from NumPy's float32 in the kernel's order")
    print(f"sgemv: {n} x {n}, equal to NumPy's float32 in the kernel's order, bit for bit")


if __name__ == "__main__":
    main()
