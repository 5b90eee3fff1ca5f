"""Bodies that attract each other: positions in tiles of shared memory, `math`, `libdevice` and a fused multiply-add."""

import math

import numpy as np
from numba import cuda, float32

TILE = 32
SOFTENING = float32(0.01)


@cuda.jit(device=True, inline=True)
def pull(ax, ay, az, xi, yi, zi, other):
    dx, dy, dz = other[0] - xi, other[1] - yi, other[2] - zi
    distance2 = cuda.fma(dx, dx, cuda.fma(dy, dy, dz * dz)) + SOFTENING
    inverse = float32(1.0) / math.sqrt(distance2)
    s = other[3] * inverse * inverse * inverse
    return ax + dx * s, ay + dy * s, az + dz * s


@cuda.jit(fastmath=False)
def accelerate(bodies, result):
    tile = cuda.shared.array((TILE, 4), float32)
    i = cuda.grid(1)
    t = cuda.threadIdx.x
    ax = ay = az = float32(0)
    xi, yi, zi = bodies[i, 0], bodies[i, 1], bodies[i, 2]
    for first in range(0, bodies.shape[0], TILE):
        for k in range(4):
            tile[t, k] = bodies[first + t, k]
        cuda.syncthreads()
        for j in range(TILE):
            ax, ay, az = pull(ax, ay, az, xi, yi, zi, tile[j])
        cuda.syncthreads()
    result[i, 0] = ax
    result[i, 1] = ay
    result[i, 2] = az


n = 96
rng = np.random.default_rng(3)
bodies = rng.random((n, 4), dtype=np.float32)
result = np.zeros((n, 3), np.float32)
accelerate[n // TILE, TILE](bodies, result)
distance = bodies[None, :, :3].astype(float) - bodies[:, None, :3]
weight = bodies[None, :, 3] / ((distance**2).sum(axis=2) + 0.01) ** 1.5
np.testing.assert_allclose(result, (distance * weight[:, :, None]).sum(axis=1), rtol=1e-3, atol=1e-3)
# expect: 1 kernel, 1 launch: 1 verified
