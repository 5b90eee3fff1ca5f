"""C++ as people write it; rarer atomics and types."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ptx.expected.barriers import integers, random
from tests.ptx.expected.case import Out, case

SOURCE = "language"
f32 = np.float32
i32 = np.int32
u16 = np.uint16
u32 = np.uint32
u64 = np.uint64
T32 = np.arange(32)


@case(SOURCE, "tools::(anonymous namespace)::apply<tools::Affine>", 2, 32)
def affine() -> list[Any]:
    x = integers(250, 50)
    state = np.zeros((), np.dtype([("slope", i32), ("offset", np.int16)], align=True))
    state["slope"], state["offset"] = 3, -7
    return [state[()], x, Out(3 * x - 7 * np.arange(50, dtype=i32)), i32(50)]


@case(SOURCE, "tools::(anonymous namespace)::apply<tools::Clamp<9> >", 2, 32)
def clamp() -> list[Any]:
    x = integers(251, 64)
    return [u32(21 | 300 << 5), x, Out(np.clip(x, 21, 300)), i32(64)]


@case(SOURCE, "bit_fields", 1, 32)
def bit_fields() -> list[Any]:
    kind, delta, rest = integers(252, 32, high=8), integers(253, 32, high=128) - 64, integers(254, 32, dtype=u64)
    rest = (rest << u64(30)) + rest

    def packed(k: Any, d: Any, r: Any) -> Any:
        return (k & 7 | (d & 127) << 3).astype(u64) | (r & u64((1 << 40) - 1)) << u64(10)

    after = packed(kind ^ 5, delta * 3, rest + (kind.astype(u64) << u64(35)))
    return [packed(kind, delta, rest), Out(kind * 1000 + delta), Out(after)]


@case(SOURCE, "tables", 1, 64)
def tables() -> list[Any]:
    x = integers(255, 64)
    primes = np.array([2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37], i32)
    thirds = np.array([0, 1 / 3, 2 / 3, 1], f32)
    return [x, Out(primes[x % 12] * 9 + (thirds[x & 3] * f32(99)).astype(i32))]


@case(SOURCE, "references", 1, 48)
def references() -> list[Any]:
    x = np.random.default_rng(256).standard_normal(48)
    return [x, Out(np.roll(x, 1) + np.roll(x, -17) * 0.5)]  # a half of it is exact


@case(SOURCE, "packs", 1, 32)
def packs() -> list[Any]:
    x = integers(257, 32)
    return [x, Out(x + x // 2 * 2 + x % 7 * 3 - x * (3 + 2 * x))]


@case(SOURCE, "atomics", 1, 32)
def atomics() -> list[Any]:
    x = integers(258, 32, dtype=u32)
    counters = np.array([32 % 10, 21 - (32 - 4), 5000 - int(x.sum()), x.max(), int(x.min()) - 500]) & 0xFFFFFFFF
    counters[1] = _down(4, 20, 32)
    wide = [(1 << 64) - (1 << 32), (1 << 32) - 1, int(np.bitwise_xor.reduce(x)) << 30, int(x.min()) << 20]
    return [
        Out(counters.astype(u32), np.array([0, 4, 5000, 0, 0], u32)),
        Out(np.array(wide, u64), np.array([(1 << 64) - 1, 0, 0, (1 << 64) - 1], u64)),
        x,
    ]


def _down(value: int, top: int, times: int) -> int:
    """atomicDec: from 0, and from above the top, to the top."""
    for _ in range(times):
        value = top if value == 0 or value > top else value - 1
    return value


def brain(values: Any) -> Any:
    """float32 to bfloat16, ties to even, as its bits."""
    word = np.asarray(values, f32).view(u32)
    return ((word + u32(0x7FFF) + (word >> u32(16) & u32(1))) >> u32(16)).astype(u16)


def whole(values: Any) -> Any:
    """bfloat16 bits to float32."""
    return (values.astype(u32) << u32(16)).view(f32)


@case(SOURCE, "brain_floats", 1, 32)
def brain_floats() -> list[Any]:
    a, b = brain(random(259, 32)), brain(random(260, 32))
    p, q = whole(a), whole(b)
    exact = p.astype(np.float64) * q + p  # 24 bits at most, and an odd bit: no tie is made by the rounding to float32
    d = np.maximum(np.stack([p + p, q + q], 1), f32(-0.5))
    return [a, b, Out(brain(exact.astype(f32))), Out(brain(d)), Out(p - whole(brain(f32(0.1))))]


@case(SOURCE, "hints", 1, 64)
def hints() -> list[Any]:
    x = integers(261, 64)
    return [x, Out(sum((np.roll(x, -k) for k in range(5)), np.zeros(64, i32))), i32(5)]
