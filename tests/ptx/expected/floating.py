"""Floating point, kinds of memory, matrix products."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

from tests.ptx.expected.arithmetic import directed, fma, fma_64
from tests.ptx.expected.barriers import integers, random
from tests.ptx.expected.case import Out, case

f32 = np.float32
f64 = np.float64
i32 = np.int32
i64 = np.int64
u32 = np.uint32


def root(value: Fraction, bits: int) -> Fraction:
    """The square root to `bits` binary places, never equal to a halfway case that the root is not."""
    scaled = value.numerator * value.denominator << 2 * bits
    whole = math.isqrt(scaled)
    exact = whole * whole == scaled
    return Fraction(2 * whole + (not exact), value.denominator << bits + 1)


# -- floating.cu -----------------------------------------------------------------------------------------------------
@case("floating", "roundings", 1, 64)
def roundings() -> list[Any]:
    p, q = random(130, 64) * f32(3), random(131, 64) + f32(0.1)
    rows = []
    for a, b in zip(p, q, strict=True):
        x, y = Fraction(float(a)), Fraction(float(b))
        exact = [
            *((x + y, way) for way in "nzud"), (x * y, "z"), (x * y, "u"), (x * y + 1, "n"), (x * y - x, "d"),
            (x / y, "n"), (x / y, "z"), (root(abs(x), 60), "n"), (1 / y, "u"),
        ]  # fmt: skip
        whole = [min(a, b), max(a, b), np.floor(a), np.ceil(b), np.trunc(a) + np.rint(b), np.copysign(a, b)]
        rows.append([*(directed(v, way, f32) for v, way in exact), *whole, np.clip(a, f32(0), f32(1)), a * b + a])
    return [p, q, Out(np.array(rows, f32))]


@case("floating", "double_roundings", 1, 32)
def double_roundings() -> list[Any]:
    rng = np.random.default_rng(132)
    p, q = rng.standard_normal(32) * 3, rng.standard_normal(32) + 0.1
    rows = []
    for a, b in zip(p, q, strict=True):
        x, y = Fraction(float(a)), Fraction(float(b))
        up, down = directed(x + y, "u", f64), directed(x * y, "d", f64)
        fused = directed(x * y + Fraction(1, 2), "n", f64)
        whole = [min(a, b), np.floor(a) - np.ceil(b), np.rint(a), a - b * a, 1 / b, abs(a) - b]
        rows.append([a + b, up, down, fused, a / b, np.sqrt(abs(a)), *whole])
    return [p, q, Out(np.array(rows))]


@case("floating", "conversions", 1, 32)
def conversions() -> list[Any]:
    x = random(133, 32) * f32(100)
    x[:6] = 0.5, 1.5, 2.5, -0.5, 16777217.0, 3e9
    d = np.random.default_rng(134).standard_normal(32) * 1e6
    k = np.random.default_rng(135).integers(-(1 << 62), 1 << 62, 32)
    y = np.zeros((32, 8), i32)
    near, highest = np.rint(x.astype(f64)), (1 << 31) - 1
    for column, values in enumerate((np.trunc(x), near, np.ceil(x), np.floor(x))):
        y[:, column] = np.minimum(values.astype(f64), highest)
    y[:, 4] = np.maximum(np.trunc(x.astype(f64)), 0).astype(u32).view(i32)
    y[:, 5] = np.rint(d)
    y[:, 6] = np.trunc(np.clip(x, f32(-30000), f32(30000)))
    y[:, 7] = near.astype(i64).astype(i32)  # a long, cut to an int
    z = np.stack([np.trunc(x).astype(i64), np.rint(d).astype(i64)], 1)
    ways = [(k.tolist(), "n"), (d.tolist(), "z"), (k.astype(u32).tolist(), "u")]
    f = [d.astype(f32), *(np.array([directed(Fraction(v), way, f32) for v in values]) for values, way in ways)]
    g = np.stack([x.astype(f64), k.astype(f64), k.view(np.uint64).astype(f64)], 1)
    return [x, d, k, Out(y), Out(z), Out(np.stack(f, 1)), Out(g)]


@case("floating", "comparisons", 1, 64)
def comparisons() -> list[Any]:
    edges = np.array([0.0, -0.0, 1.5, -1.5, np.inf, -np.inf, np.nan, 1e-40], f32)
    p, q = np.repeat(edges, 8), np.tile(edges, 8)
    tests = [p < q, p <= q, p == q, p != q, ~(p > q), ~(p >= q), np.isnan(p), np.isinf(q), np.signbit(p)]
    tests.append(np.isfinite(p) & np.isfinite(q))
    return [p, q, Out(sum((t.astype(i32) << i32(k) for k, t in enumerate(tests)), np.zeros(64, i32)))]


@case("floating", "compensated_sum", 1, 32)
def compensated_sum() -> list[Any]:
    x = random(136, 32, 50) * f32(1000)
    s, correction, plain = (np.zeros(32, f32) for _ in range(3))
    for k in range(50):
        term = x[:, k] - correction
        total = s + term
        correction = (total - s) - term
        s, plain = total, plain + x[:, k]
    return [x, Out(s), Out(plain), i32(50)]


@case("floating", "library", 1, 64)
def library() -> list[Any]:
    x = random(137, 64) * f32(3)
    p = x.astype(f64)
    rows = [np.exp(p), np.log(np.abs(p) + 0.5), np.sin(p), np.cos(p), 1 / np.sqrt(np.abs(p) + 1)]
    rows += [(np.abs(x) + f32(0.1)).astype(f64) ** 1.5, np.tanh(p), np.arctan2(p, 2)]
    rows[1] = np.log((np.abs(x) + f32(0.5)).astype(f64))
    rows[4] = 1 / np.sqrt((np.abs(x) + f32(1)).astype(f64))
    return [x, Out(np.stack(rows, 1).astype(f32), ulp=4, relative=1e-7)]


@case("floating", "fast_library", 1, 64)
def fast_library() -> list[Any]:
    x = np.linspace(0.6, 2.4, 64, dtype=f32)
    p = x.astype(f64)
    rows = [np.exp(p), np.log(p + 0.5), np.sin(p), np.cos(p), p / 3, (p + 0.1) ** 1.5, 1 / np.sqrt(p + 1)]
    absolute = np.zeros(7)
    absolute[2:4] = 2.0**-20.5  # what the PTX ISA allows sin.approx and cos.approx
    return [x, Out(np.stack(rows, 1).astype(f32), relative=3e-5, absolute=absolute)]


@case("floating", "double_library", 1, 32)
def double_library() -> list[Any]:
    p = np.random.default_rng(138).standard_normal(32) * 3
    rows = [np.exp(p), np.log(np.abs(p) + 0.5), np.sin(p), (np.abs(p) + 0.1) ** 1.5, 1 / np.sqrt(np.abs(p) + 1)]
    return [p, Out(np.stack(rows, 1), ulp=3)]


@case("floating", "cube_roots", 1, 64)
def cube_roots() -> list[Any]:
    x = np.random.default_rng(139).random(64) * 1000
    y, rounds = [], []
    for value in x.tolist():
        guess, change, count = value if value > 1 else 1.0, np.inf, -1
        while change > 1e-15 * guess:
            after = (2.0 * guess + value / (guess * guess)) / 3.0
            change, guess, count = abs(after - guess), after, count + 1
        y.append(guess)
        rounds.append(count)
    return [x, Out(np.array(y)), Out(np.array(rounds, i32))]


# -- contracted.cu ---------------------------------------------------------------------------------------------------
@case("contracted", "axpy", 2, 64)
def axpy() -> list[Any]:
    x, y, a = random(140, 300), random(141, 300), f32(1.7)
    return [a, x, Out(fma(a, x, y), y), i32(300)]


@case("contracted", "polynomial", 1, 64)
def polynomial() -> list[Any]:
    t = np.random.default_rng(142).standard_normal(64)
    y: Any = fma_64(t, 0.125, -1.75)
    for c in (3.0, -0.1, 7.0):
        y = fma_64(y, t, c)
    return [t, Out(y)]


@case("contracted", "complex_products", 1, 32)
def complex_products() -> list[Any]:
    x = random(143, 32, 6, 2)
    re, im = np.ones(32, f32), np.zeros(32, f32)
    for k in range(6):
        a, b = x[:, k].T
        re, im = fma(re, a, -(im * b)), fma(im, a, re * b)
    return [x, Out(np.stack([re, im], 1)), i32(6)]


@case("contracted", "forces", 2, 32)
def forces() -> list[Any]:
    body = random(144, 64, 4)
    p = body.astype(f64)
    d = p[None, :, :3] - p[:, None, :3]
    strength = p[None, :, 3] / ((d * d).sum(2) + 0.01) ** 1.5
    y = np.zeros((64, 4), f32)
    y[:, :3] = (d * strength[:, :, None]).sum(1)
    return [body, Out(y, relative=2e-3), i32(64)]


@case("contracted", "seven_points", (2, 2), (8, 4))
def seven_points() -> list[Any]:
    x = random(145, 10, 10, 10)
    y = np.full(x.shape, -1, f32)
    c = slice(1, -1)
    sides = x[:-2, c, c] + x[2:, c, c] + x[c, c, :-2] + x[c, c, 2:] + x[c, :-2, c] + x[c, 2:, c]
    y[c, c, c] = fma(f32(0.4), x[c, c, c], f32(0.1) * sides)
    return [x, Out(y, -1), i32(10)]


@case("control", "escape_time", (2, 2), (16, 4))
def escape_time() -> list[Any]:
    scale = f32(0.09)
    rows, columns = np.meshgrid(np.arange(8), np.arange(32), indexing="ij")
    a = fma(columns.astype(f32), scale, f32(-2))
    b = fma(rows.astype(f32), scale, f32(-1))
    re, im, y = np.zeros_like(a), np.zeros_like(a), np.zeros(a.shape, i32)
    live = np.ones(a.shape, bool)
    for _ in range(40):
        live = live & (fma(re, re, im * im) < 4)
        y += live
        after = fma(re, re, -(im * im)) + a
        re, im = np.where(live, after, re), np.where(live, fma(f32(2) * re, im, b), im)
    return [Out(y), i32(32), scale, i32(40)]


@case("functions", "cross_products", 2, 32)
def cross_products() -> list[Any]:
    a, b = random(146, 64, 3), random(147, 64, 3)

    def cross(p: Any, q: Any) -> Any:
        (px, py, pz), (qx, qy, qz) = p.T, q.T
        return np.stack([fma(py, qz, -(pz * qy)), fma(pz, qx, -(px * qz)), fma(px, qy, -(py * qx))], 1)

    return [a, b, Out(cross(cross(a, b), b))]


# -- matmul.cu -------------------------------------------------------------------------------------------------------
def multiplied(a: Any, b: Any, fused: Any) -> Any:
    """A B in the order of the inner index, each step rounded once."""
    sums = np.zeros((a.shape[0], b.shape[1]), a.dtype)
    for k in range(a.shape[1]):
        sums = fused(a[:, k, None], b[None, k], sums)
    return sums


@case("matmul", "product_plain", (2, 3), (16, 4))
def product_plain() -> list[Any]:
    a, b = random(150, 10, 13), random(151, 13, 30)
    return [a, b, Out(multiplied(a, b, fma)), i32(10), i32(30), i32(13)]


@case("matmul", "product_tiled<float, 8>", (3, 2), (8, 8))
def product_tiled() -> list[Any]:
    a, b = random(152, 13, 21), random(153, 21, 20)
    return [a, b, Out(multiplied(a, b, fma)), i32(13), i32(20), i32(21)]


@case("matmul", "product_tiled<double, 16>", (1, 2), (16, 16))
def product_double() -> list[Any]:
    rng = np.random.default_rng(154)
    a, b = rng.standard_normal((20, 18)), rng.standard_normal((18, 15))
    return [a, b, Out(multiplied(a, b, fma_64)), i32(20), i32(15), i32(18)]


@case("matmul", "product_tiled<long long, 4>", (2, 2), (4, 4))
def product_wide() -> list[Any]:
    rng = np.random.default_rng(155)
    a, b = rng.integers(-(1 << 40), 1 << 40, (7, 9)), rng.integers(-(1 << 40), 1 << 40, (9, 8))
    return [a, b, Out(a @ b), i32(7), i32(8), i32(9)]


@case("matmul", "product_blocked", (1, 1), 64)
def product_blocked() -> list[Any]:
    a, b = random(156, 32, 32), random(157, 32, 32)
    return [a, b, Out(multiplied(a, b, fma)), i32(32)]


@case("matmul", "product_bytes", 8, 32)
def product_bytes() -> list[Any]:
    a, b = (integers(seed, n, 20, high=256, dtype=np.uint8) for seed, n in ((158, 8), (159, 32)))
    c = a.view(np.int8).astype(i32) @ b.view(np.int8).astype(i32).T + i32(1)
    d = a.astype(u32) @ b.astype(u32).T + u32(1)
    return [a.view(i32), b.view(i32), Out(c), Out(d), i32(32), i32(5)]


@case("matmul", "matrix_power", 1, (6, 6), shared=2 * 36 * 4)
def matrix_power() -> list[Any]:
    a = integers(160, 6, 6, dtype=u32)
    c = np.eye(6, dtype=u32)
    for _ in range(5):
        c = c @ a
    return [a, Out(c), i32(6), i32(5)]


# -- memory.cu -------------------------------------------------------------------------------------------------------
@case("memory", "carved", 1, 48, shared=48 * 13)
def carved() -> list[Any]:
    x = np.random.default_rng(170).standard_normal(48)
    k, b = integers(171, 48), integers(172, 48, high=256, dtype=np.uint8)
    y = fma_64(np.roll(k, -2).astype(f64), 0.5, np.roll(x, -1)) + b[::-1]
    return [x, k, b, Out(y), i32(48)]


@case("memory", "both_kinds", 1, 32, shared=128)
def both_kinds() -> list[Any]:
    x = integers(173, 32)
    return [x, Out(x[::-1] + np.roll(x * 2, -5) + (x % 100)[np.arange(32) % 3])]


@case("memory", "local_array", 1, 64)
def local_array() -> list[Any]:
    x = integers(174, 64)
    counts = [np.bincount(x[(t * 7 + np.arange(40) * 3) % 64] % 10, minlength=10) for t in range(64)]
    return [x, Out(np.array([c.argmax() * 100 + c.max() for c in counts], i32))]


SETTINGS = np.dtype(
    [
        ("sign", "i1"), ("offset", "i2"), ("scale", "i4"), ("big", "i8"), ("factor", "f4"), ("wide", "f8"),
        ("table", "u1", 6),
    ],
    align=True,
)  # fmt: skip


@case("memory", "by_value", 1, 64)
def by_value() -> list[Any]:
    x = integers(175, 64)
    s = np.zeros((), SETTINGS)
    s["sign"], s["offset"], s["scale"], s["big"] = -1, -300, 7, 1 << 40
    s["factor"], s["wide"], s["table"] = 0.1, 0.25, [1, 2, 3, 200, 255, 0]
    table = s["table"][np.arange(64) % 6].astype(f64)
    whole = (-(x * 7 - 300)).astype(f64)
    y = fma_64(table, f64(s["factor"]), whole) + 0.25 + float(1 << 40)
    return [s[()], x, Out(y)]


@case("memory", "image_rows", 1, 32)
def image_rows() -> list[Any]:
    pixels = random(189, 20, 9)
    y = np.full(32, -1, f32)
    y[:20] = pixels.max(1)
    return [(pixels, i32(9), i32(20)), Out(y, -1)]


@case("memory", "constants", 2, 64)
def constants() -> list[Any]:
    x = random(176, 120)
    y = np.zeros(116, f32)
    for k, weight in enumerate((0.0625, 0.25, 0.375, 0.25, 0.0625)):
        y = fma(f32(weight), x[k : k + 116], y)
    y = (y + np.array([1, 2, 5], f32)[np.arange(116) % 3]) + f32(-7)
    out = np.full(120, -1, f32)
    out[:116] = y
    return [x, Out(out, -1), i32(120)]


@case("memory", "module_variables", 1, 64)
def module_variables() -> list[Any]:
    x = integers(177, 64)
    table = np.array([10, 20, 30, 40, 50, 0, 0, 0], i32)
    y = (x + np.tile(table, 8))[::-1]
    return [x, Out(y), Out(np.array([64 * 63 // 2], u32))]


@case("memory", "vectors", 1, 32)
def vectors() -> list[Any]:
    f, i = random(178, 32, 4), integers(179, 32, 2) - 500
    b, s = integers(180, 32, 4, high=256, dtype=np.uint8), integers(181, 32, 2, dtype=np.int16) - np.int16(500)
    d = np.random.default_rng(182).standard_normal((32, 2)) * 1e5
    y = [f[:, 3] + i[:, 0].astype(f32), f[:, 2] - i[:, 1].astype(f32), f[:, 1] * b[:, 0], f[:, 0] + d[:, 1].astype(f32)]
    z = [b[:, 3].astype(i32) + 1, b[:, 2].astype(i32) * 2, s[:, 0].astype(i32), (s[:, 1] >> 1).astype(i32)]
    w = [np.trunc(d[:, 0]).astype(i64), i[:, 0].astype(i64) << 33]
    return [f, i, b, s, d, Out(np.stack(y, 1)), Out(np.stack(z, 1).astype(np.uint16)), Out(np.stack(w, 1))]


@case("memory", "bits", 1, 64)
def bits() -> list[Any]:
    x = random(183, 64)
    word, t = x.view(u32), np.arange(64)
    y = word ^ (u32(0x10) << (8 * (t % 4)).astype(u32))
    z = (word & u32(0x7FFFFFFF)) | u32(0x3F800000)
    w = (x.astype(f64).view(i64) >> 32) + 0x00100000 << 32 | t
    return [x, Out(y), Out(z.view(f32)), Out(w.view(f64))]


@case("memory", "halfs", 1, 32)
def halfs() -> list[Any]:
    a, b = (random(seed, 32).astype(np.float16) for seed in (184, 185))
    exact = a.astype(f64) * b.astype(f64) + 0.25
    d = np.stack([a, b], 1).astype(f64) ** 2 + 1  # ptxas contracts the product and the sum
    return [a, b, Out(exact.astype(np.float16)), Out(d.astype(np.float16)), Out(a.astype(f32) + (a < b).astype(f32))]


@case("memory", "either_memory", 1, 64)
def either_memory() -> list[Any]:
    x = integers(186, 64)
    odd = x % 2 == 1
    y = np.where(odd, x[::-1] * 2, x[::-1]) * 1000 + x * 2 + odd[::-1]
    return [Out(x + ~odd[::-1], x), Out(y.astype(i32)), Out(np.where(odd, 5, 6).astype(i32))]


@case("memory", "indices", (2, 3, 2), (4, 2, 5))
def indices() -> list[Any]:
    y, z = [], []
    for (cz, cy, cx), (tz, ty, tx) in product(np.ndindex(2, 3, 2), np.ndindex(5, 2, 4)):
        y.append(tx + 10 * ty + 100 * tz + 1000 * cx + 10000 * cy + 100000 * cz)
        z.append(2 * 1000 + 5 * 100 + ((tz * 2 + ty) * 4 + tx & 31) * 32)
    return [Out(np.array(y, i32)), Out(np.array(z, i32))]


@case("memory", "qualifiers", 1, 64)
def qualifiers() -> list[Any]:
    x, a = integers(187, 64), integers(188, 64)
    y = np.concatenate([x + 1 + a * 10 + a[::-1] * 100, x[::-1] + x])
    return [x, a, Out(x + 1), Out(y)]
