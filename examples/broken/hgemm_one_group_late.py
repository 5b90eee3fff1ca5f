"""Race: the wait of a ring of three stages leaves one group too many in flight: the slice may not have arrived."""

import numpy as np

from wsemu import cuda, ptx

TILE, SLICE, STAGES, PITCH, THREADS, ON_THE_WAY = 16, 16, 3, 24, 32, 2


@cuda.jit
def copy_slice(tile, stage, x, column):
    line, at = cuda.threadIdx.x // 2, cuda.threadIdx.x % 2 * 8
    ptx.cp_async_cg(tile, (stage, line, at), x, (line, column + at), 16)


@cuda.jit
def hgemm_one_group_late(a, b, c):
    tile_a = cuda.shared.array((STAGES, TILE, PITCH), np.float16, 16)
    tile_b = cuda.shared.array((STAGES, TILE, PITCH), np.float16, 16)
    slices, lane = a.shape[1] // SLICE, cuda.laneid
    for s in range(STAGES - 1):
        copy_slice(tile_a, s, a, s * SLICE)
        copy_slice(tile_b, s, b, s * SLICE)
        ptx.cp_async_commit_group()
    sums = (np.float32(0), np.float32(0), np.float32(0), np.float32(0))
    for s in range(slices):
        ptx.cp_async_wait_group(ON_THE_WAY)
        cuda.syncwarp()
        if s + STAGES - 1 < slices:
            copy_slice(tile_a, (s + STAGES - 1) % STAGES, a, (s + STAGES - 1) * SLICE)
            copy_slice(tile_b, (s + STAGES - 1) % STAGES, b, (s + STAGES - 1) * SLICE)
        ptx.cp_async_commit_group()
        of_a = ptx.ldmatrix_x4(tile_a, (s % STAGES, lane % 16, lane // 16 * 8))
        of_b = ptx.ldmatrix_x2(tile_b, (s % STAGES, lane % 8, lane // 8 % 2 * 8))
        sums = ptx.mma_m16n8k16_f32_f16_f16_f32(of_a, of_b, sums)
    ptx.cp_async_wait_all()
    ptx.st_v2(c, (lane // 4, lane % 4 * 2), (sums[0], sums[1]))
    ptx.st_v2(c, (lane // 4 + 8, lane % 4 * 2), (sums[2], sums[3]))


a, b = np.ones((TILE, 64), np.float16), np.ones((TILE, 64), np.float16)
hgemm_one_group_late[1, THREADS](a, b, np.zeros((TILE, 8), np.float32))
