"""Half-precision matrix product on tensor cores, as kernels for the A100 do it: `cp.async` and `mma.sync`.

c = a b^T, a of m x k and b of n x k halves, c of m x n floats.  A CTA of four warps makes a tile of 64 x 64; its
operands come in slices of 32 k through a ring of three stages that `cp.async` fills while the tensor cores work on
another.  Lines of a stage are 40 halves apart: then the eight rows of 16 bytes that `ldmatrix` reads at once lie in
different banks.

    python examples/hgemm.py [m n k]
"""

import sys

import numpy as np

from wsemu import cuda, ptx

TILE, SLICE, STAGES = 64, 32, 3
PITCH = SLICE + 8
ON_THE_WAY = STAGES - 2  # slices that may be, while one is used
THREADS = 128


@cuda.jit
def copy_slice(tile, stage, x, row, column):
    """A slice of TILE lines of x into a stage, 16 bytes a thread and step."""
    for piece in range(cuda.threadIdx.x, TILE * SLICE // 8, THREADS):
        line, at = piece // (SLICE // 8), piece % (SLICE // 8) * 8
        ptx.cp_async_cg(tile, (stage, line, at), x, (row + line, column + at), 16)


@cuda.jit
def hgemm(a, b, c):
    tile_a = cuda.shared.array((STAGES, TILE, PITCH), np.float16, 16)
    tile_b = cuda.shared.array((STAGES, TILE, PITCH), np.float16, 16)
    row, column, slices = cuda.blockIdx.y * TILE, cuda.blockIdx.x * TILE, a.shape[1] // SLICE
    lane, warp = cuda.laneid, cuda.threadIdx.x // 32
    first, across = warp // 2 * 32, warp % 2 * 32  # of the warp's 32 x 32
    sums = cuda.local.array((2, 4, 4), np.float32)
    for i in range(2):
        for j in range(4):
            for r in range(4):
                sums[i, j, r] = 0
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
        stage = s % STAGES
        for k in range(0, SLICE, 16):
            for i in range(2):
                of_a = ptx.ldmatrix_x4(tile_a, (stage, first + 16 * i + lane % 16, k + lane // 16 * 8))
                for j in range(0, 4, 2):
                    line = across + 8 * j + lane // 16 * 8 + lane % 8
                    of_b = ptx.ldmatrix_x4(tile_b, (stage, line, k + lane // 8 % 2 * 8))
                    for h in range(2):
                        before = (sums[i, j + h, 0], sums[i, j + h, 1], sums[i, j + h, 2], sums[i, j + h, 3])
                        pair = (of_b[0], of_b[1]) if h == 0 else (of_b[2], of_b[3])
                        d = ptx.mma_m16n8k16_f32_f16_f16_f32(of_a, pair, before)
                        sums[i, j + h, 0], sums[i, j + h, 1], sums[i, j + h, 2], sums[i, j + h, 3] = d
    for i in range(2):
        for j in range(4):
            at, to = row + first + 16 * i + lane // 4, column + across + 8 * j + lane % 4 * 2
            ptx.st_v2(c, (at, to), (sums[i, j, 0], sums[i, j, 1]))
            ptx.st_v2(c, (at + 8, to), (sums[i, j, 2], sums[i, j, 3]))


def main(m, n, k):
    generator = np.random.default_rng(0)
    a, b = (generator.integers(-4, 5, (rows, k)).astype(np.float16) for rows in (m, n))
    c = np.zeros((m, n), np.float32)
    hgemm[(n // TILE, m // TILE), THREADS](a, b, c)
    assert np.array_equal(c, a.astype(np.float32) @ b.astype(np.float32).T)


if __name__ == "__main__":
    main(*(int(x) for x in sys.argv[1:4] or (128, 128, 128)))
