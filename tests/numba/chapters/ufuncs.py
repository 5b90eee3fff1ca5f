"""Functions of numbers and of rows, with device functions, on streams, into given arrays."""

import math

import numpy as np
from numba import cuda, guvectorize, vectorize


@cuda.jit("float32(float32, float32)", device=True, inline="always")
def ratio(x, y):
    return x / y


@vectorize(["float32(float32, float32)", "float64(float64, float64)"], target="cuda")
def norm(x, y):
    return math.sqrt(x**2 + y**2)


@vectorize(["float32(float32, float32)"], target="cuda")
def powered(x, y):
    return ratio(x**y, y)


@guvectorize(["void(float32[:,:], float32[:,:], float32[:,:])"], "(m,n),(n,p)->(m,p)", target="cuda")
def product(a, b, c):
    m, n = a.shape
    n, p = b.shape
    for i in range(m):
        for j in range(p):
            c[i, j] = 0
            for k in range(n):
                c[i, j] += a[i, k] * b[k, j]


product.max_blocksize = 32

rng = np.random.default_rng(5)
x, y = rng.random(1000) + 1, rng.random(1000) + 1
assert np.allclose(norm(x, y), np.hypot(x, y))
single = x.astype(np.float32)
assert np.allclose(powered(single, single), single**single / single, rtol=1e-5)
a, b = rng.random((3, 4, 5)).astype(np.float32), rng.random((3, 5, 2)).astype(np.float32)
assert np.allclose(product(a, b), a @ b, rtol=1e-5)

stream, results = cuda.stream(), np.empty_like(x)
with stream.auto_synchronize():
    for part, other, result in zip(np.split(x, 4), np.split(y, 4), np.split(results, 4), strict=False):
        here, there = cuda.to_device(part, stream), cuda.to_device(other, stream)
        out = cuda.to_device(result, stream, copy=False)
        norm(here, there, out=out, stream=stream)
        out.copy_to_host(result, stream)
assert np.allclose(results, np.hypot(x, y))
# expect: 3 kernels, 7 launches: 7 verified
