"""Floats of 8 bits of Numba-CUDA (`numba.cuda._internal.cuda_fp8`): every value there and back, and rounding."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from wsemu import cuda
from wsemu.host import takeover
from wsemu.language import cuda_names
from wsemu.launch.check import check
from wsemu.model.errors import KernelError
from wsemu.model.settings import Settings, using

fp8: Any = cuda_names.cuda_fp8
fp8_e4m3, fp8_e5m2 = fp8.fp8_e4m3, fp8.fp8_e5m2
saturation_t, fp8_interpretation_t = fp8.saturation_t, fp8.fp8_interpretation_t
cvt_float_to_fp8, cvt_double_to_fp8 = fp8.cvt_float_to_fp8, fp8.cvt_double_to_fp8
FORMS = {"e4m3": (3, 7, 0x7E), "e5m2": (2, 15, 0x7B)}
"""bits of the mantissa, bias, the largest number's bits"""
ENGINES = [Settings(), Settings(engine="reference")]


def value(form: str, bits: int) -> float:
    mantissa, bias, most = FORMS[form]
    size = bits & 0x7F
    if size > most:
        return math.copysign(math.inf, 64 - bits) if (form, size) == ("e5m2", 0x7C) else math.nan
    exponent, fraction = size >> mantissa, size & (1 << mantissa) - 1
    found = math.ldexp(fraction + (exponent > 0) * (1 << mantissa), max(exponent, 1) - bias - mantissa)
    return -found if bits & 0x80 else found


def rounded(form: str, x: float, saturate: bool) -> int:
    """The bits of the nearest number, of two the even one."""
    _, _, most = FORMS[form]
    sign = 0x80 * (math.copysign(1, x) < 0)
    if math.isnan(x):
        return 0x7F
    known = [value(form, bits) for bits in range(most + 1)]
    known.append(2 * known[-1] - known[-2])  # where numbers would go on
    found = min(range(len(known)), key=lambda bits: (abs(known[bits] - abs(x)), bits & 1))
    if found > most or abs(x) > known[-1]:
        found = most if saturate else 0x7C if form == "e5m2" else 0x7F
    return sign | found


def hard(form: str) -> np.ndarray[Any, np.dtype[np.float32]]:
    """The numbers, those in the middle, those next to both, and some beyond."""
    _, _, most = FORMS[form]
    known = np.array([value(form, bits) for bits in range(most + 1)] + [1e6, 1e30, math.inf])
    last = 1.5 * known[most] - 0.5 * known[most - 1]
    middle = np.append((known[:most] + known[1 : most + 1]) / 2, last).astype(np.float32)
    beside = [np.nextafter(middle, np.float32(to)) for to in (0, np.inf)]
    whole = np.concatenate([known.astype(np.float32), middle, *beside])
    return np.concatenate([whole, -whole, [np.float32(np.nan)]]).astype(np.float32)


@cuda.jit
def store(x, wide, out):
    i = cuda.grid(1)
    if i < x.size:
        out[0, i] = cvt_float_to_fp8(x[i], saturation_t.SATFINITE, fp8_interpretation_t.E4M3)
        out[1, i] = cvt_float_to_fp8(x[i], saturation_t.NOSAT, fp8_interpretation_t.E4M3)
        out[2, i] = cvt_float_to_fp8(x[i], saturation_t.SATFINITE, fp8_interpretation_t.E5M2)
        out[3, i] = cvt_float_to_fp8(x[i], saturation_t.NOSAT, fp8_interpretation_t.E5M2)
        out[4, i] = cvt_double_to_fp8(wide[i], saturation_t.SATFINITE, fp8_interpretation_t.E4M3)
        out[5, i] = cvt_double_to_fp8(wide[i], saturation_t.NOSAT, fp8_interpretation_t.E5M2)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("engine", ENGINES, ids=["vm", "reference"])
def test_numbers_are_rounded_to_nearest_even(form: str, engine: Settings) -> None:
    x = hard(form)[:: 1 if engine == ENGINES[0] else 17]
    wide, out = x.astype(np.float64), np.zeros((6, x.size), np.uint8)
    with using(engine):
        check(store, -(-x.size // 64), 64, (x, wide, out)).assert_clean()
    plain = x[~np.isnan(x)].astype(float)
    cases = [("e4m3", True), ("e4m3", False), ("e5m2", True), ("e5m2", False), ("e4m3", True), ("e5m2", False)]
    for row, case in zip(out, cases, strict=True):
        assert row[~np.isnan(x)].tolist() == [rounded(case[0], number, case[1]) for number in plain]
        assert set(row[np.isnan(x)].tolist()) <= {0x7F, 0x7E | 1, 0x7E}


@cuda.jit
def store_doubles(x, out):
    i = cuda.grid(1)
    out[i] = cvt_double_to_fp8(x[i], saturation_t.SATFINITE, fp8_interpretation_t.E4M3)


def test_a_double_is_rounded_once() -> None:
    x = np.array([1.0625, 1.0625 + 2.0**-50, 1.0625 - 2.0**-50, 2.0**-10, 2.0**-10 + 2.0**-60, 1e-300])
    out = np.zeros(6, np.uint8)
    check(store_doubles, 1, 6, (x, out)).assert_clean()
    assert out.tolist() == [rounded("e4m3", number, True) for number in x] == [0x38, 0x39, 0x38, 0, 1, 0]


@cuda.jit
def back(x, floats, small, doubles, flags):
    i = cuda.grid(1)
    a, c = fp8_e4m3(x[i]), fp8_e5m2(x[i])
    if x[i] > 1:
        a = fp8_e4m3(-x[i])
    floats[0, i], floats[1, i] = cuda.float32(a), cuda.types.float32(c)
    small[0, i], small[1, i] = np.int8(a), np.uint8(c)
    doubles[i] = np.float64(c) + np.float64(np.float16(fp8_e5m2(3))) + int(fp8_e4m3(True))
    flags[i] = bool(a)


def test_what_was_rounded_becomes_a_number_again() -> None:
    x = np.array([0.0, 0.3, 1.0, 2.6, 500.0, -3.0, 2.0**-9], np.float32)
    floats, small = np.zeros((2, 7), np.float32), np.zeros((2, 7), np.int16)
    doubles, flags = np.zeros(7), np.zeros(7, np.bool_)
    check(back, 1, 7, (x, floats, small, doubles, flags)).assert_clean()
    turned = np.where(x > 1, -x, x)
    for row, form, given in zip(floats, FORMS, (turned, x), strict=True):
        assert row.tolist() == [value(form, rounded(form, float(number), True)) for number in given]
    assert small[0].tolist() == np.clip(np.trunc(floats[0]), -128, 127).tolist()
    assert small[1].tolist() == np.clip(np.trunc(floats[1]), 0, 255).tolist()
    assert doubles.tolist() == (floats[1] + 4.0).tolist()
    assert flags.tolist() == (floats[0] != 0).tolist()


@cuda.jit
def every(x, out):
    i = cuda.grid(1)
    out[0, i], out[1, i] = cuda.float32(fp8_e4m3(x[0, i])), cuda.float32(fp8_e5m2(x[1, i]))


def test_every_number_comes_back() -> None:
    x = np.array([[value(form, bits) for bits in range(256)] for form in FORMS], np.float32)
    x[np.isinf(x)] = np.nan  # which a constructor saturates
    out = np.zeros((2, 256), np.float32)
    check(every, 4, 64, (x, out)).assert_clean()
    assert np.array_equal(out, x, equal_nan=True)


@pytest.mark.parametrize("expression", ["a + a", "a * 2.0", "-a", "a == a", "a < 1", "abs(a)", "a << 1", "fp8_e5m2(a)"])
def test_nothing_is_computed_with_floats_of_eight_bits(expression: str) -> None:
    space = {"fp8_e4m3": fp8_e4m3, "fp8_e5m2": fp8_e5m2}
    text = f"def made(x):\n    a = fp8_e4m3(x[0])\n    x[0] = {expression}\n"
    exec(text, space)
    made: Any = space["made"]
    made.__source__ = text
    with pytest.raises(KernelError, match="fp8_e4m3"):
        cuda.jit(made)[1, 1](np.zeros(1))


def test_they_are_imported_by_numbas_name() -> None:
    with takeover.numba_cuda():
        import numba.cuda._internal.cuda_fp8 as imported

        assert imported.fp8_e4m3 is fp8_e4m3
        assert imported.saturation_t.SATFINITE == 1
