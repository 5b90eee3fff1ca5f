"""Producers and consumers."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ptx.expected.arithmetic import fma
from tests.ptx.expected.case import Out, case

SOURCE = "producer_consumer"
f32 = np.float32


def random(seed: int, *shape: int) -> Any:
    return np.random.default_rng(seed).standard_normal(shape, dtype=f32)


def integers(seed: int, *shape: int, high: int = 1000, dtype: Any = np.int32) -> Any:
    return np.random.default_rng(seed).integers(0, high, shape, dtype=dtype)


@case(SOURCE, "single_buffer", 3, 96)
def single_buffer() -> list[Any]:
    x, a = random(1, 3, 5, 64), f32(0.7)
    y = np.zeros((3, 64), f32)
    for i in range(5):
        y = fma(a, x[:, i], y)
    return [x, Out(y), np.int32(5), a]


@case(SOURCE, "double_buffer", 2, 96)
def double_buffer() -> list[Any]:
    x = random(2, 2, 7, 64)
    y = np.zeros((2, 64), f32)
    for i in range(7):
        y = fma(f32(0.5), y, x[:, i])
    return [x, Out(y), np.int32(7)]


@case(SOURCE, "two_producers", 1, 128)
def two_producers() -> list[Any]:
    x = integers(3, 6, 64)
    y = np.zeros(64, np.int32)
    for i in range(6):
        y = y * (5 if i % 2 else 3) + x[i, ::-1]
    return [x, Out(y), np.int32(6)]


def _ring(dtype: Any, tiles: int) -> list[Any]:
    x = np.random.default_rng(4).integers(0, np.iinfo(dtype).max, (tiles, 64), dtype=dtype)
    y = np.zeros(64, dtype)
    for row in x:
        y = y * dtype(7) + row
    return [x, Out(y), np.int32(tiles)]


@case(SOURCE, "ring<unsigned int, 3>", 1, 96)
def ring_3() -> list[Any]:
    return _ring(np.uint32, 8)


@case(SOURCE, "ring<unsigned long long, 4>", 1, 96)
def ring_4() -> list[Any]:
    return _ring(np.uint64, 11)


@case(SOURCE, "matrix_vector", 2, 64 + 32 + 64)
def matrix_vector() -> list[Any]:
    a, x = random(5, 128, 48), random(6, 48)
    y = np.zeros(128, f32)
    for k in range(48):
        y = fma(a[:, k], x[k], y)
    return [a, x, Out(y), np.int32(48)]


@case(SOURCE, "strided_rows", 1, 96, shared=10 * 16 * 4)
def strided_rows() -> list[Any]:
    x = random(7, 10, 20)
    return [x, Out(x[:, :16] + f32(1)), np.int32(10), np.int32(20)]


@case(SOURCE, "gather", 1, 96)
def gather() -> list[Any]:
    x = np.random.default_rng(8).standard_normal(300)
    index = integers(9, 3, 64, high=300)
    return [x, index, Out(-x[index]), np.int32(3)]


@case(SOURCE, "scatter", 1, 96)
def scatter() -> list[Any]:
    x = integers(10, 64, dtype=np.int16)
    index = np.random.default_rng(11).permutation(64).astype(np.uint8)
    y = np.empty(64, np.int16)
    y[index] = x * x
    return [x, index, Out(y)]


@case(SOURCE, "halo", (3, 2), 96)
def halo() -> list[Any]:
    x = random(12, 18, 26)
    sides = x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]
    return [x, Out(fma(f32(4), x[1:-1, 1:-1], -sides)), np.int32(26)]


@case(SOURCE, "chain", 1, 96)
def chain() -> list[Any]:
    x = integers(13, 6, 32)
    out = x[:, ::-1] ^ np.arange(6, dtype=np.int32)[:, None]
    return [x, Out(out[:, np.arange(32) ^ 1]), np.int32(6)]


@case(SOURCE, "counted", 1, 96)
def counted() -> list[Any]:
    x = random(14, 4, 96)
    positive = (x > 0).sum(1, dtype=np.int32)[:, None]
    return [x, Out(np.where(x[:, 32:] > 0, positive, -positive)), np.int32(4)]


@case(SOURCE, "prefetch", 1, 96)
def prefetch() -> list[Any]:
    x = random(15, 5, 128)
    y = np.zeros(128, f32)
    for row in x:
        y[:64] += row[:64]
        y[64:] = fma(row[64:], row[:64], y[64:])
    return [x, Out(y), np.int32(5)]


@case(SOURCE, "objects", 1, 224)
def objects() -> list[Any]:
    x, w = random(16, 4, 100), random(17, 4, 100)
    y = np.zeros(99, f32)
    for a, b in zip(x, w, strict=True):
        y = fma(a[:99], b[:99], y)
    return [x, w, Out(y), np.int32(4)]


@case(SOURCE, "relay", 1, 192)
def relay() -> list[Any]:
    words = [1, 11, 112, 1123, 11234, 112345]
    return [Out(np.repeat(np.array(words, np.uint32), 32)), np.int32(6)]


@case(SOURCE, "unaligned", 1, 64)
def unaligned() -> list[Any]:
    x = integers(18, 64)
    return [x, Out(x[::-1])]
