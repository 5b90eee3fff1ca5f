"""The heat equation in one dimension: two device arrays that take turns, one launch for each step in time."""

import numpy as np
from numba import cuda


@cuda.jit("void(float32[::1], float32[::1], float32)")
def step(old, new, k):
    i = cuda.grid(1)
    n = old.shape[0]
    if i >= n:
        return
    if i == 0 or i == n - 1:
        new[i] = old[i]
    else:
        new[i] = old[i] + k * (old[i - 1] - 2 * old[i] + old[i + 1])


def simulate(size=301, steps=60):
    start = np.zeros(size, dtype=np.float32)
    start[size // 2] = 1000
    arrays = cuda.to_device(start), cuda.device_array_like(start)
    for n in range(steps):
        step[(size + 63) // 64, 64](arrays[n % 2], arrays[(n + 1) % 2], 0.25)
    return arrays[steps % 2].copy_to_host()


if __name__ == "__main__":
    result = simulate()
    assert abs(result.sum() - 1000) < 0.1
    np.testing.assert_allclose(result, result[::-1])
    print(f"highest {result.max():.3f}")
# expect: 1 kernel, 60 launches: 60 verified
