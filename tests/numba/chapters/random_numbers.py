"""Random numbers: a state for each thread, and how much of a square lies in a circle."""

import numpy as np
from numba import cuda
from numba.cuda.random import create_xoroshiro128p_states, xoroshiro128p_normal_float64, xoroshiro128p_uniform_float32


@cuda.jit
def quarter(states, tries, shares):
    thread = cuda.grid(1)
    inside = 0
    for _ in range(tries):
        x = xoroshiro128p_uniform_float32(states, thread)
        y = xoroshiro128p_uniform_float32(states, thread)
        if x * x + y * y <= 1.0:
            inside += 1
    shares[thread] = 4.0 * inside / tries


@cuda.jit
def normals(states, values):
    thread = cuda.grid(1)
    if thread < values.size:
        values[thread] = xoroshiro128p_normal_float64(states, thread)


states = create_xoroshiro128p_states(256, seed=7)
shares = np.zeros(256, np.float32)
quarter[4, 64](states, 200, shares)
assert abs(shares.mean() - np.pi) < 0.05
values = np.zeros(256)
normals[4, 64](states, values)
assert abs(values.mean()) < 0.3
assert 0.8 < values.std() < 1.2
# expect: 2 kernels, 2 launches: 2 verified
