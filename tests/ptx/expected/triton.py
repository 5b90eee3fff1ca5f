"""What Triton compiled; the last two parameters of each are pointers to scratch memory, and not used here."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ptx.expected.barriers import integers, random
from tests.ptx.expected.case import Out, case

f32 = np.float32
i32 = np.int32
THREADS = 128
SCRATCH = [None, None]


@case("triton_add", "add", 3, THREADS)
def add() -> list[Any]:
    x, y = random(220, 700), random(221, 700)
    return [x, y, Out(x + y), i32(700), *SCRATCH]


@case("triton_softmax", "softmax", 3, THREADS, shared=512)
def softmax() -> list[Any]:
    x = random(222, 3, 200)
    high = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    return [x, Out((high / high.sum(1, keepdims=True)).astype(f32), relative=1e-6), i32(200), *SCRATCH]


# Pairs of warps store the same sums into shared memory, and nothing orders them.
@case("triton_row_sums", "row_sums", 2, THREADS, shared=4096, warnings=("same-value-store",))
def row_sums() -> list[Any]:
    x = integers(223, 27, 64)
    return [x, Out(x.sum(1, dtype=i32)), i32(27), *SCRATCH]


@case("triton_running_sums", "running_sums", 2, THREADS, shared=4096)
def running_sums() -> list[Any]:
    x = integers(224, 2, 512)
    return [x, Out(np.cumsum(x, 1, dtype=i32)), *SCRATCH]


@case("triton_transposed", "transposed", (2, 2), THREADS, shared=8192)
def transposed() -> list[Any]:
    x = random(225, 64, 64)
    return [x, Out(x.T), i32(64), *SCRATCH]


@case("triton_histogram", "histogram", 2, THREADS)
def histogram() -> list[Any]:
    x = integers(226, 400, high=16)
    return [x, Out(np.bincount(x, minlength=16).astype(i32), 0), i32(400), *SCRATCH]
