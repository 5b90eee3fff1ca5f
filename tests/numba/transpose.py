"""Transposition: plain, through a tile whose columns conflict, and through a padded one."""

import numpy as np
from numba import cuda, float32

TILE = 32


@cuda.jit
def plain(a, out):
    x, y = cuda.grid(2)
    if x < a.shape[1] and y < a.shape[0]:
        out[x, y] = a[y, x]


def through_a_tile(padding):
    width = TILE + padding

    @cuda.jit
    def transpose(a, out):
        tile = cuda.shared.array((TILE, width), dtype=float32)
        tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
        x = cuda.blockIdx.x * TILE + tx
        y = cuda.blockIdx.y * TILE + ty
        for j in range(0, TILE, 8):
            tile[ty + j, tx] = a[y + j, x]
        cuda.syncthreads()
        x = cuda.blockIdx.y * TILE + tx
        y = cuda.blockIdx.x * TILE + ty
        for j in range(0, TILE, 8):
            out[y + j, x] = tile[tx, ty + j]

    return transpose


a = np.arange(64 * 96, dtype=np.float32).reshape(64, 96)
for kernel in (plain, through_a_tile(0), through_a_tile(1)):
    rows = 32 if kernel is plain else 8
    out = np.zeros((96, 64), np.float32)
    kernel[(3, 2), (TILE, rows)](a, out)
    np.testing.assert_array_equal(out, a.T)
# expect: 2 kernels, 3 launches: 3 verified
