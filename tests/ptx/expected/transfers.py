"""Transfer objects with register buffers."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from tests.ptx.expected.arithmetic import fma
from tests.ptx.expected.barriers import integers, random
from tests.ptx.expected.case import Out, case

SOURCE = "transfers"
f32 = np.float32
i32 = np.int32


def column_sums() -> list[Any]:
    x = random(230, 5 * 12, 40)
    y = np.zeros(32, f32)
    for row in x:
        y = y + row[:32]
    return [x, Out(y), i32(40), i32(5)]


for _word in ("float, 1", "float2, 2", "float4, 4"):
    case(SOURCE, f"column_sums<{_word}>", 1, 96)(column_sums)


@case(SOURCE, "sparse_rows", 2, 96)
def sparse_rows() -> list[Any]:
    value, column, x = random(231, 128, 6), integers(232, 128, 6, high=500), random(233, 500)
    y = np.zeros(128, f32)
    for k in range(6):
        y = fma(value[:, k], x[column[:, k]], y)
    return [value, column, x, Out(y), i32(6), i32(6)]


def cross_stencil(radius: int) -> list[Any]:
    x = random(234, 3, 8 + 2 * radius, 16 + 2 * radius)
    inside = [slice(radius, -radius)] * 2
    y = np.zeros((3, 8, 16), f32)
    for r in range(1, radius + 1):
        around = [np.roll(x, shift, axis)[:, inside[0], inside[1]] for axis in (1, 2) for shift in (r, -r)]
        y = y + (((around[0] + around[1]) + around[2]) + around[3])
    return [x, Out(y), i32(x.shape[2]), i32(3), i32(x.shape[1] * x.shape[2])]


for _radius in (1, 3):
    case(SOURCE, f"cross_stencil<{_radius}>", (2, 1), 128)(partial(cross_stencil, _radius))


@case(SOURCE, "staged_axpy", 1, 192)
def staged_axpy() -> list[Any]:
    x, y, a = random(235, 6, 64, 2), random(236, 6, 64, 2), f32(1.3)
    return [a, x, Out(fma(a, x, y), y), i32(6)]


@case(SOURCE, "unspecialized", 1, 64)
def unspecialized() -> list[Any]:
    x = integers(237, 4, 64, 4)
    y = np.zeros(64, i32)
    for i, tile in enumerate(x):
        p, q, r, s = tile[(np.arange(64) * 5 + i) % 64].T
        y = y * 3 + p - q * r + (s >> 2)
    return [x, Out(y), i32(4)]
