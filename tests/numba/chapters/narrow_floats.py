"""Floats of 16 bits: float16 and bfloat16, their arithmetic and their functions."""

import math

import numpy as np
from numba import cuda, float32
from numba.cuda.bf16 import bfloat16_to_int32_rd, float32_to_bfloat16_rz, hadd, hfma, hmax, hsqrt
from numba.cuda.types import bfloat16


def rounded(x):
    """float32 numbers of the values that bfloat16 has, to nearest even."""
    bits = np.asarray(x, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)


@cuda.jit
def brain(x, y, out):
    i = cuda.grid(1)
    tile = cuda.shared.array(64, dtype=bfloat16)
    if i < x.size:
        a, b = bfloat16(x[i]), bfloat16(y[i])
        tile[i] = a
        out[0, i] = float32(a + b)
        out[1, i] = float32(a * b)
        out[2, i] = float32(-a / b)
        out[3, i] = float32(hfma(a, b, a))
        out[4, i] = float32(hmax(tile[i], b))
        out[5, i] = float32(hsqrt(abs(a)))
        out[6, i] = float32(math.exp(a))
        out[7, i] = float32(hadd(a, b) if a < b else bfloat16(1))
        out[8, i] = float32(float32_to_bfloat16_rz(x[i]))
        out[9, i] = bfloat16_to_int32_rd(a)


@cuda.jit
def half(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = cuda.fp16.hfma(x[i], x[i], y[i])


rng = np.random.default_rng(11)
x, y = rng.normal(size=64).astype(np.float32), rng.normal(size=64).astype(np.float32)
out = np.zeros((10, 64), np.float32)
brain[1, 64](x, y, out)
a, b = rounded(x), rounded(y)
expected = [
    rounded(a + b), rounded(a * b), rounded(-a / b), rounded(a.astype(float) * b + a), np.maximum(a, b),
    rounded(np.sqrt(abs(a))), rounded(np.exp(a)), np.where(a < b, rounded(a + b), 1),
    (x.view(np.uint32) & 0xFFFF0000).view(np.float32), np.floor(a),
]  # fmt: skip
for row, wanted in zip(out, expected, strict=False):
    assert (row == wanted).all()
h = rng.normal(size=64).astype(np.float16)
sums = np.ones(64, np.float16)
half[1, 64](h, sums)
assert (sums == (h.astype(float) ** 2 + 1).astype(np.float16)).all()
# expect: 2 kernels, 2 launches: 2 verified
