"""`--mma exact`: sums of matrix instructions are rounded once, on both engines, as exact arithmetic has them."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import wsemu
from tests.commands import wsemu as command
from tests.unit import test_scaled as scaled
from tests.unit import test_sparse as sparse
from tests.unit.matrix_kernels import ALL, kernel, random_tiles, run
from tests.unit.test_wgmma import form
from wsemu.model.errors import UsageError
from wsemu.model.matrix import FORMATS, MMA, WGMMA

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.matrix_kernels import Bits

FLOATS = [name for name in ALL if MMA[name].a in FORMATS and MMA[name].m == 16]
SLOW = FLOATS[::6]
"""on the reference engine, too"""
NARROW = [name for name, shape in scaled.NARROW.items() if not shape.has_factors]


def number(bits: int, type_: str) -> float:
    """By the text of the type: sign, exponent, fraction."""
    of = FORMATS[type_]
    bits >>= of.dropped
    sign, field = bits >> of.exponent + of.mantissa, bits >> of.mantissa & (1 << of.exponent) - 1
    low = bits & (1 << of.mantissa) - 1
    highest = field == (1 << of.exponent) - 1 and of.infinite < 2
    if highest and (of.infinite or low == (1 << of.mantissa) - 1):
        return math.nan if low else -math.inf if sign else math.inf
    value = math.ldexp(low + (field > 0) * (1 << of.mantissa), max(field, 1) - of.bias - of.mantissa)
    return -value if sign else value


def summed(x: list[float], y: list[float], before: float, to: Any) -> int:
    """Bits of the sum of products, rounded once."""
    kind = {np.float16: (0x7FFF, 0x7C00, 11, -24), np.float32: (0x7FFFFFFF, 0x7F800000, 24, -149)}[to]
    nan, infinity, digits, least = kind
    terms = [p * q for p, q in zip(x, y, strict=True)]
    total = sum(term for term in (*terms, before) if not math.isfinite(term))
    if math.isnan(total):
        return nan
    if math.isinf(total):
        return infinity | (total < 0) * (nan + 1)
    pairs = zip(x, y, strict=True)
    exact = sum((Fraction(p) * Fraction(q) for p, q in pairs), Fraction(before))
    if not exact:
        return 0
    exponent = math.floor(math.log2(abs(exact.numerator)) - math.log2(exact.denominator))
    exponent += (Fraction(2) ** (exponent + 1) <= abs(exact)) - (Fraction(2) ** exponent > abs(exact))
    unit = Fraction(2) ** max(exponent - digits + 1, least)
    rounded = round(abs(exact) / unit) * unit
    most = Fraction(2) ** (16 if digits == 11 else 128)
    size = infinity if rounded >= most else int(np.array([float(rounded)], to).view(f"u{np.dtype(to).itemsize}")[0])
    return size | (exact < 0 and size > 0) * (nan + 1)


def expected(name: str, a: Bits, b: Bits, c: Bits) -> Bits:
    shape = MMA[name]
    to = np.float16 if shape.d == "f16" else np.float32
    found = np.zeros(c.shape, np.uint32)
    for tile, i, j in np.ndindex(c.shape):
        x = [number(int(bits), shape.a) for bits in a[tile, i]]
        y = [number(int(bits), shape.b) for bits in b[tile, :, j]]
        found[tile, i, j] = summed(x, y, number(int(c[tile, i, j]), shape.c), to)
    return found


@pytest.mark.parametrize("name", FLOATS)
def test_a_sum_is_rounded_once(name: str) -> None:
    shape = MMA[name]
    for wild in (False, True):
        tiles = random_tiles(shape, 1, len(name) + wild, wild=wild)
        right = expected(name, *tiles)
        assert np.array_equal(run(shape, *tiles, mma="exact"), right)
        if not wild and name in SLOW:
            assert np.array_equal(run(shape, *tiles, mma="exact", engine="reference"), right)


@pytest.mark.parametrize("engine", sparse.ENGINES)
@pytest.mark.parametrize("name", [name for name, shape in sparse.SPARSE.items() if shape.a in FORMATS])
def test_a_sum_of_a_sparse_product_is_rounded_once(name: str, engine: str) -> None:
    shape = MMA[name]
    dense, b, c = random_tiles(shape, 1, len(name), wild=False)
    stored, positions = dense[:, :, : shape.k // 2], sparse.random_positions(shape, np.random.default_rng(5))
    metadata = sparse.pack_metadata(shape, positions, 0)[None]
    report, d = sparse.run(shape, stored, metadata, b, c, mma="exact", engine=engine)
    assert report.verdict == "verified", report
    assert np.array_equal(d, expected(name, sparse.widen(shape, stored[0], positions)[None], b, c))


@pytest.mark.parametrize("name", NARROW)
def test_a_sum_of_narrow_floats_is_rounded_once(name: str) -> None:
    shape, generator = MMA[name], np.random.default_rng(5)
    a = generator.choice(scaled.finite(shape.a), (1, 16, 32))
    b = generator.choice(scaled.finite(shape.b), (1, 32, 8))
    _, _, c = random_tiles(shape, 1, 5, wild=False)
    tiles = scaled.in_container(shape, a, shape.a), scaled.in_container(shape, b, shape.b), c
    right = expected(name, a << FORMATS[shape.a].dropped, b << FORMATS[shape.b].dropped, c)
    for engine in scaled.ENGINES if name in NARROW[::6] else ("vm",):
        d = scaled.run(shape, scaled.plain_text(shape), *tiles, *scaled.NO_FACTORS, "0 0 0 0", engine, "exact")
        assert np.array_equal(d, right)


def test_ties_subnormals_overflow_and_cancellation() -> None:
    shape = MMA["mma.m16n8k16.f32.f16.f16.f32"]
    a, b = np.zeros((1, 16, 16), np.uint64), np.zeros((1, 16, 8), np.uint64)
    c = np.zeros((1, 16, 8), np.uint64)
    one, tiny, large = 0x3C00, 0x0001, 0x7BFF
    b[0, :, :] = one
    c[0, :, 0] = 0x4B800000  # 2 ** 24: an even number of units
    c[0, :, 1] = 0x4B800001
    c[0, :, 2] = 0x00000001
    c[0, :, 3] = 0x7F7FFFFF
    c[0, :, 4] = 0xCB800000
    a[0, 0, 0] = one
    a[0, 1, :2] = one, tiny
    a[0, 2, :2] = tiny, tiny | 0x8000
    a[0, 3, :] = large
    a[0, 4, :2] = large, large | 0x8000
    right = expected("mma.m16n8k16.f32.f16.f16.f32", a, b, c)
    for engine in ("vm", "reference"):
        assert np.array_equal(run(shape, a, b, c, mma="exact", engine=engine), right)
    assert right[0, 0, 0] == 0x4B800000  # a tie goes to the even one
    assert right[0, 1, 0] == 0x4B800001  # and what is above it up


@pytest.mark.parametrize("name", ["wgmma.s.f32.f16.f16", "wgmma.r.f32.tf32.tf32", "wgmma.s.f16.e4m3.e5m2"])
def test_a_wgmma_too(name: str) -> None:
    found = WGMMA[name]
    x = np.random.default_rng(len(name)).integers(0, 1 << 32, 2048, np.uint32) & np.uint32(0xBFBFBFBF)
    results = {}
    for engine, mma in (("vm", "exact"), ("reference", "exact"), ("vm", "hardware")):
        d = np.zeros((128, found.part.accumulators), np.uint32)
        kernel_ = wsemu.load_ptx(form(found, 8))["k"]
        report = wsemu.check(kernel_, 1, 128, (x, d), engine=engine, mma=mma)  # type: ignore[arg-type]
        assert report.verdict == "verified", report
        results[engine, mma] = d
    assert np.array_equal(results["vm", "exact"], results["reference", "exact"])
    assert not np.array_equal(results["vm", "exact"], results["vm", "hardware"])


def test_integers_and_doubles_are_as_they_were() -> None:
    for name in ("mma.m16n8k32.s32.s8.s8.s32", "mma.m8n8k4.f64.f64.f64.f64"):
        tiles = random_tiles(MMA[name], 1, 3, wild=False)
        assert np.array_equal(run(MMA[name], *tiles, mma="exact"), run(MMA[name], *tiles))


def test_a_report_says_so(tmp_path: Path) -> None:
    shape = MMA["mma.m16n8k16.f32.f16.f16.f32"]
    (tmp_path / "k.ptx").write_text(kernel(shape), encoding="utf-8")
    sizes = ["u32[1024]:0"] * 4
    words = ["--grid", "1", "--block", "32", *(word for size in sizes for word in ("--arg", size))]
    done = command("check", "--mma", "exact", "--format", "json", str(tmp_path / "k.ptx"), *words)
    (report,) = json.loads(done.stdout)["reports"]
    assert report["verdict"] == "verified"
    assert "rounded once (mma exact)" in str(report["notes"])
    with pytest.raises(UsageError, match="no sums 'precise'"):
        run(shape, *random_tiles(shape, 1, 1), mma="precise")
