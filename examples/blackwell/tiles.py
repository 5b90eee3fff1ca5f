"""A product of halves on Blackwell, in Python: a ring of slices in shared memory, and a ring of sums in tensor memory.

    python examples/blackwell/tiles.py [m n k [KERNEL]]

Computes c = a b^T and compares it with NumPy.  A CTA takes every `gridDim.x`-th tile of 128 x 64.  One thread loads
slices of a and b by tensor copies; one multiplies them; four warps store the sums of a tile while the next one is
multiplied.

    tiles            the right kernel
    tiles_early      a slice is released before the products that read it are issued
    tiles_unwaited   the sums are released before the loads from tensor memory are complete
    tiles_apart      an arrival in place of a commit: the sums may not be complete
"""

import sys

import numpy as np

import wsemu
from wsemu import cuda, ptx
from wsemu.patterns import Pipeline

ROWS, COLUMNS, SLICE = 128, 64, 32
THREADS = 192  # four warps that store, one that loads, one that multiplies
SLICES = Pipeline(3, 1, 1, consumer="tcgen05")
SUMS = Pipeline(2, 1, ROWS, engine="tcgen05")
TYPES = 1 << 4 | COLUMNS // 8 << 17 | ROWS // 16 << 24  # halves, sums of 32 bits
LINE = 2 * SLICE  # bytes; a swizzle permutes the units of 16 of such a line
RIGHT, EARLY, UNWAITED, APART = range(4)


@cuda.jit(device=True)
def load(bars, x, y, of_a, of_b, across, tiles, slices):
    i = 0
    for tile in range(cuda.blockIdx.x, tiles, cuda.gridDim.x):
        row, column = tile // across * ROWS, tile % across * COLUMNS
        for s in range(slices):
            SLICES.producer_acquire(bars, i)
            stage, full = SLICES.stage(i), SLICES.full(i)
            ptx.cp_async_bulk_tensor_global_to_shared(x, (stage, 0, 0), of_a, (s * SLICE, row), bars, full)
            ptx.cp_async_bulk_tensor_global_to_shared(y, (stage, 0, 0), of_b, (s * SLICE, column), bars, full)
            SLICES.producer_commit(bars, i, (ROWS + COLUMNS) * LINE)
            i += 1


@cuda.jit(device=True)
def multiply(bars, done, x, y, sums, tiles, slices, wrong):
    i = 0
    for t, _ in enumerate(range(cuda.blockIdx.x, tiles, cuda.gridDim.x)):
        SUMS.producer_acquire(done, t)
        to = sums + COLUMNS * SUMS.stage(t)
        for s in range(slices):
            SLICES.consumer_wait(bars, i)
            if wrong == EARLY:
                SLICES.consumer_release(bars, i)
            for k in range(0, LINE, 32):
                a = ptx.matrix_descriptor(x, SLICES.stage(i) * ROWS * LINE + k, 16, 8 * LINE, LINE)
                b = ptx.matrix_descriptor(y, SLICES.stage(i) * COLUMNS * LINE + k, 16, 8 * LINE, LINE)
                ptx.tcgen05_mma_f16(to, a, b, TYPES, s + k > 0)
            if wrong != EARLY:
                SLICES.consumer_release(bars, i)
            i += 1
        if wrong == APART:
            ptx.mbarrier_arrive(done, SUMS.full(t))
        else:
            SUMS.producer_commit(done, t)


@cuda.jit(device=True)
def store(done, c, sums, across, tiles, wrong):
    warp = cuda.threadIdx.x // 32
    for t, tile in enumerate(range(cuda.blockIdx.x, tiles, cuda.gridDim.x)):
        row, column = tile // across * ROWS + cuda.threadIdx.x, tile % across * COLUMNS
        SUMS.consumer_wait(done, t)
        line = ptx.tcgen05_ld_32x32b_x64(sums + COLUMNS * SUMS.stage(t) + (warp << 21))
        if wrong == UNWAITED:
            SUMS.consumer_release(done, t)
        ptx.tcgen05_wait_ld()
        if wrong != UNWAITED:
            SUMS.consumer_release(done, t)
        for n in range(COLUMNS):
            c[row, column + n] = line[n].view(np.float32)


@cuda.jit(device=True)
def product(of_a, of_b, c, slices, wrong):
    x = cuda.shared.array((SLICES.stages, ROWS, SLICE), np.float16, 1024)
    y = cuda.shared.array((SLICES.stages, COLUMNS, SLICE), np.float16, 1024)
    bars = cuda.shared.array(SLICES.barriers, np.uint64)
    done = cuda.shared.array(SUMS.barriers, np.uint64)
    words = cuda.shared.array(1, np.uint32)
    across = c.shape[1] // COLUMNS
    tiles = c.shape[0] // ROWS * across
    warp = cuda.threadIdx.x // 32
    if warp == 0:
        ptx.tcgen05_alloc(words, 0, SUMS.stages * COLUMNS)
        ptx.tcgen05_relinquish_alloc_permit()
    SLICES.start(bars)
    SUMS.start(done)
    sums = words[0]
    if warp < 4:
        store(done, c, sums, across, tiles, wrong)
    elif cuda.threadIdx.x == 128:
        load(bars, x, y, of_a, of_b, across, tiles, slices)
    elif cuda.threadIdx.x == 160:
        multiply(bars, done, x, y, sums, tiles, slices, wrong)
    cuda.syncthreads()
    if warp == 0:
        ptx.tcgen05_dealloc(sums, SUMS.stages * COLUMNS)


@cuda.jit
def tiles(of_a, of_b, c, slices):
    product(of_a, of_b, c, slices, RIGHT)


@cuda.jit
def tiles_early(of_a, of_b, c, slices):
    product(of_a, of_b, c, slices, EARLY)


@cuda.jit
def tiles_unwaited(of_a, of_b, c, slices):
    product(of_a, of_b, c, slices, UNWAITED)


@cuda.jit
def tiles_apart(of_a, of_b, c, slices):
    product(of_a, of_b, c, slices, APART)


def main(m, n, k, name="tiles"):
    generator = np.random.default_rng(0)
    a, b = (generator.integers(-4, 5, (rows, k)).astype(np.float16) for rows in (m, n))
    c = np.zeros((m, n), np.float32)
    maps = [wsemu.TensorMap(x, [rows, SLICE], swizzle="64B") for x, rows in ((a, ROWS), (b, COLUMNS))]
    globals()[name][2, THREADS](*maps, c, k // SLICE)
    assert np.array_equal(c, a.astype(np.float32) @ b.astype(np.float32).T)


if __name__ == "__main__":
    main(*(int(x) for x in sys.argv[1:4] or (256, 192, 256)), *sys.argv[4:5])
