"""Half-precision matrix product on tensor cores: with `cp.async` as kernels for the A100 do it, or with bulk copies.

c = a b^T, a of m x k and b of n x k halves, c of m x n floats.  Four warps make a tile of 64 x 64 by `mma.sync`; the
operands come in slices of 32 k through a ring of stages, while the tensor cores work on another one.  Lines of a stage
are 40 halves apart, or swizzled: then the eight rows of 16 bytes that `ldmatrix` reads at once lie in different banks.

    hgemm        all threads fill three stages, by `cp.async`
    hgemm_bulk   a warp for a and one for b fill a `Pipeline` of four, by a bulk copy for each line (sm_90)
    hgemm_tiles  the same by a tensor copy for each slice, of tensor maps

    python examples/hgemm.py [m n k]
"""

import sys

import numpy as np

from wsemu import cuda, ptx
from wsemu.patterns import CudaDMAStrided, CudaDMATile, Pipeline

TILE, SLICE, STAGES = 64, 32, 3
PITCH = SLICE + 8
ON_THE_WAY = STAGES - 2  # slices that may be, while one is used
THREADS = 128

RING = Pipeline(4, 2, THREADS // 32)  # a lane of each compute warp releases its slices
LINE_BYTES, PITCH_BYTES = 2 * SLICE, 2 * PITCH
TILE_A = CudaDMATile(1, 32, THREADS, THREADS, TILE, LINE_BYTES, swizzle="64B")
TILE_B = CudaDMATile(2, 32, THREADS, THREADS + 32, TILE, LINE_BYTES, swizzle="64B")


@cuda.jit(device=True)
def clear(sums):
    for i in range(2):
        for j in range(4):
            for r in range(4):
                sums[i, j, r] = 0


@cuda.jit(device=True)
def place(line, piece, swizzled):
    """Return the position in its line, in halves, at which a piece of 16 bytes begins."""
    return 8 * TILE_A.placed(line, piece) if swizzled else 8 * piece


@cuda.jit(device=True)
def multiply(tile_a, tile_b, stage, sums, swizzled):
    """Add the products of a slice to the warp's 32 x 32 sums."""
    lane, warp = cuda.laneid, cuda.threadIdx.x // 32
    first, across = warp // 2 * 32, warp % 2 * 32
    for k in range(0, SLICE, 16):
        for i in range(2):
            line = first + 16 * i + lane % 16
            of_a = ptx.ldmatrix_x4(tile_a, (stage, line, place(line, k // 8 + lane // 16, swizzled)))
            for j in range(0, 4, 2):
                line = across + 8 * j + lane // 16 * 8 + lane % 8
                of_b = ptx.ldmatrix_x4(tile_b, (stage, line, place(line, k // 8 + lane // 8 % 2, swizzled)))
                for h in range(2):
                    before = (sums[i, j + h, 0], sums[i, j + h, 1], sums[i, j + h, 2], sums[i, j + h, 3])
                    pair = (of_b[0], of_b[1]) if h == 0 else (of_b[2], of_b[3])
                    d = ptx.mma_m16n8k16_f32_f16_f16_f32(of_a, pair, before)
                    sums[i, j + h, 0], sums[i, j + h, 1], sums[i, j + h, 2], sums[i, j + h, 3] = d


@cuda.jit(device=True)
def write(c, sums):
    lane, warp = cuda.laneid, cuda.threadIdx.x // 32
    row, column = cuda.blockIdx.y * TILE + warp // 2 * 32, cuda.blockIdx.x * TILE + warp % 2 * 32
    for i in range(2):
        for j in range(4):
            at, to = row + 16 * i + lane // 4, column + 8 * j + lane % 4 * 2
            ptx.st_v2(c, (at, to), (sums[i, j, 0], sums[i, j, 1]))
            ptx.st_v2(c, (at + 8, to), (sums[i, j, 2], sums[i, j, 3]))


@cuda.jit(device=True)
def copy_slice(tile, stage, x, row, column):
    """Copy a slice of TILE lines of x into a stage, 16 bytes per thread in each step."""
    for piece in range(cuda.threadIdx.x, TILE * SLICE // 8, THREADS):
        line, at = piece // (SLICE // 8), piece % (SLICE // 8) * 8
        ptx.cp_async_cg(tile, (stage, line, at), x, (row + line, column + at), 16)


@cuda.jit
def hgemm(a, b, c):
    tile_a = cuda.shared.array((STAGES, TILE, PITCH), np.float16, 16)
    tile_b = cuda.shared.array((STAGES, TILE, PITCH), np.float16, 16)
    sums = cuda.local.array((2, 4, 4), np.float32)
    row, column, slices = cuda.blockIdx.y * TILE, cuda.blockIdx.x * TILE, a.shape[1] // SLICE
    clear(sums)
    for s in range(STAGES - 1):
        if s < slices:
            copy_slice(tile_a, s, a, row, s * SLICE)
            copy_slice(tile_b, s, b, column, s * SLICE)
        ptx.cp_async_commit_group()
    for s in range(slices):
        ptx.cp_async_wait_group(ON_THE_WAY)
        cuda.syncthreads()  # the slice is there for all, and all have done with the stage that is filled next
        if s + STAGES - 1 < slices:
            copy_slice(tile_a, (s + STAGES - 1) % STAGES, a, row, (s + STAGES - 1) * SLICE)
            copy_slice(tile_b, (s + STAGES - 1) % STAGES, b, column, (s + STAGES - 1) * SLICE)
        ptx.cp_async_commit_group()
        multiply(tile_a, tile_b, s % STAGES, sums, False)
    write(c, sums)


@cuda.jit(device=True)
def use(bars, s, tile_a, tile_b, sums, swizzled):
    """Wait for a slice of the ring, multiply, and release it, as one warp."""
    RING.consumer_wait(bars, s)
    multiply(tile_a, tile_b, RING.stage(s), sums, swizzled)
    cuda.syncwarp()
    if cuda.laneid == 0:
        RING.consumer_release(bars, s)


@cuda.jit
def hgemm_bulk(a, b, c):
    bars = cuda.shared.array(RING.barriers, np.uint64)
    tile_a = cuda.shared.array((RING.stages, TILE, PITCH), np.float16, 16)
    tile_b = cuda.shared.array((RING.stages, TILE, PITCH), np.float16, 16)
    sums = cuda.local.array((2, 4, 4), np.float32)
    row, column, slices = cuda.blockIdx.y * TILE, cuda.blockIdx.x * TILE, a.shape[1] // SLICE
    lines = CudaDMAStrided(
        1, 32, THREADS, THREADS, LINE_BYTES, TILE, 2 * a.shape[1], PITCH_BYTES, alignment=16, engine="bulk"
    )
    columns = CudaDMAStrided(
        2, 32, THREADS, THREADS + 32, LINE_BYTES, TILE, 2 * b.shape[1], PITCH_BYTES, alignment=16, engine="bulk"
    )
    RING.start(bars)
    if cuda.threadIdx.x < THREADS:
        clear(sums)
        for s in range(slices):
            use(bars, s, tile_a, tile_b, sums, False)
        write(c, sums)
    elif lines.owns_this_thread():
        for s in range(slices):
            RING.execute_dma(bars, s, lines, a[row:, s * SLICE :], tile_a[RING.stage(s)])
    elif columns.owns_this_thread():
        for s in range(slices):
            RING.execute_dma(bars, s, columns, b[column:, s * SLICE :], tile_b[RING.stage(s)])


@cuda.jit
def hgemm_tiles(a, b, c, slices):
    bars = cuda.shared.array(RING.barriers, np.uint64)
    tile_a = cuda.shared.array((RING.stages, TILE, SLICE), np.float16, 1024)
    tile_b = cuda.shared.array((RING.stages, TILE, SLICE), np.float16, 1024)
    sums = cuda.local.array((2, 4, 4), np.float32)
    row, column = cuda.blockIdx.y * TILE, cuda.blockIdx.x * TILE
    RING.start(bars)
    if cuda.threadIdx.x < THREADS:
        clear(sums)
        for s in range(slices):
            use(bars, s, tile_a, tile_b, sums, True)
        write(c, sums)
    elif TILE_A.owns_this_thread():
        for s in range(slices):
            RING.execute_dma(bars, s, TILE_A, a, tile_a[RING.stage(s)], s * SLICE, row)
    elif TILE_B.owns_this_thread():
        for s in range(slices):
            RING.execute_dma(bars, s, TILE_B, b, tile_b[RING.stage(s)], s * SLICE, column)


VERSIONS = {
    "hgemm": (hgemm, THREADS, lambda a, b, c: (a, b, c)),
    "hgemm_bulk": (hgemm_bulk, THREADS + 64, lambda a, b, c: (a, b, c)),
    "hgemm_tiles": (
        hgemm_tiles,
        THREADS + 64,
        lambda a, b, c: (TILE_A.tensor_map(a), TILE_B.tensor_map(b), c, np.int32(a.shape[1] // SLICE)),
    ),
}
"""name -> kernel, threads of a CTA, function that returns its arguments"""


def main(m, n, k):
    generator = np.random.default_rng(0)
    a, b = (generator.integers(-4, 5, (rows, k)).astype(np.float16) for rows in (m, n))
    for name, (kernel, threads, arguments) in VERSIONS.items():
        c = np.zeros((m, n), np.float32)
        kernel[(n // TILE, m // TILE), threads](*arguments(a, b, c))
        assert np.array_equal(c, a.astype(np.float32) @ b.astype(np.float32).T), name


if __name__ == "__main__":
    main(*(int(x) for x in sys.argv[1:4] or (128, 128, 128)))
