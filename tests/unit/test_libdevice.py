"""`cuda.libdevice` in full: values are those of `math`, of NumPy and of exact arithmetic."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from wsemu import cuda
from wsemu.language.libdevice import TABLE
from wsemu.launch.check import check

FLOATS = np.array([0.37, -2.5, 1.5, 3e9, 0.9999, 27.3, -1.0, 1e-30, -7.25, 150.5])
SMALL = np.array([0.37, -2.5, 1.5, 0.9, -0.75, 0.25, 2.0, -0.999, 3.25, 8.7])
INTEGERS = np.array([3, -7, 2**31 - 1, -(2**31), 12345, 33, 16777217, -16777219, 0x1234567, 1], np.int32)
LONGS = np.array([3, -7, 2**63 - 1, -(2**63), 2**53 + 1, -(2**53) - 1, 2**62 + 1, 2**40 + 7, -1, 0], np.int64)


def values(names: list[str], *arguments: Any) -> dict[str, np.ndarray[Any, Any]]:
    """The results of functions of the same arguments, by name; an argument of a tuple for each result of two."""
    letters = "xyz"[: len(arguments)]
    lines = [
        f"    r{n} = cuda.libdevice.{name}({', '.join(f'{c}[i]' for c in letters)})" for n, name in enumerate(names)
    ]
    kept = ", ".join(f"o{n}" for n in range(len(names)))
    two = [" " in TABLE[name].result for name in names]
    for n, pair in enumerate(two):
        lines.append(f"    o{n}[i, 0] = r{n}[0]; o{n}[i, 1] = r{n}[1]" if pair else f"    o{n}[i] = r{n}")
    text = f"def made({', '.join(letters)}, {kept}):\n    i = cuda.threadIdx.x\n" + "\n".join(lines) + "\n"
    space: dict[str, Any] = {"cuda": cuda}
    exec(text, space)
    space["made"].__source__ = text
    count = len(arguments[0])
    out = [
        np.zeros((count, 2) if pair else count, TABLE[name].result.split()[0])
        for name, pair in zip(names, two, strict=True)
    ]
    check(cuda.jit(space["made"]), 1, count, (*arguments, *out)).assert_clean()
    return dict(zip(names, out, strict=True))


def test_the_list_is_numba_cudas() -> None:
    """All names of NVIDIA's libdevice, 317, each with types that Numba-CUDA has."""
    assert len(TABLE) == 317
    assert not [n for n, f in TABLE.items() if re.search("uint", f"{f.result} {f.operands}")]  # it has signed ones


ONE = {
    name: getattr(math, name)
    for name in "acos asin atan cos cosh erf erfc exp expm1 fabs lgamma log log10 log1p log2 sin sinh sqrt tan".split()
} | {
    "asinh": math.asinh, "tanh": math.tanh, "acosh": math.acosh, "atanh": math.atanh, "cbrt": np.cbrt,
    "ceil": np.ceil, "floor": np.floor,
    "trunc": np.trunc, "rint": np.rint, "nearbyint": np.rint, "exp2": np.exp2, "exp10": lambda x: 10.0**x,
    "rsqrt": lambda x: 1 / math.sqrt(x), "rcbrt": lambda x: 1 / np.cbrt(x), "tgamma": math.gamma,
    "round": lambda x: math.copysign(math.floor(abs(x) + 0.5), x), "normcdf": lambda x: math.erfc(-x / 2**0.5) / 2,
    "sinpi": lambda x: math.sin(math.pi * x), "cospi": lambda x: math.cos(math.pi * x),
    "logb": lambda x: math.frexp(x)[1] - 1,
}  # fmt: skip


@pytest.mark.parametrize("suffix", ["", "f"])
def test_functions_of_one_float(suffix: str) -> None:
    type_ = np.float32 if suffix else np.float64
    found = values([name + suffix for name in ONE], SMALL.astype(type_))
    for name, function in ONE.items():
        for x, got in zip(SMALL.astype(type_).astype(float), found[name + suffix], strict=True):
            try:
                wanted = float(function(x))
            except (ValueError, TypeError, OverflowError):
                continue
            assert math.isclose(got, wanted, rel_tol=1e-6 if suffix else 1e-13, abs_tol=1e-7 if suffix else 1e-15) or (
                math.isnan(wanted) and math.isnan(got)
            ), (name, x)


def test_inverses_of_the_error_function() -> None:
    x = np.array([1e-300, 1e-10, 0.1, 0.3, 0.5, 0.7, 0.99, 0.9999999, 1.0, 1.5])
    found = values(["erfinv", "erfcinv", "normcdfinv", "erfcx"], x)
    for n, given in enumerate(x):
        if given < 1:
            assert math.isclose(math.erf(found["erfinv"][n]), given, rel_tol=1e-14)
            assert math.isclose(math.erfc(-found["normcdfinv"][n] / 2**0.5) / 2, given, rel_tol=1e-12)
        assert math.isclose(math.erfc(found["erfcinv"][n]), given, rel_tol=2e-13)
        assert math.isclose(found["erfcx"][n], math.exp(given * given) * math.erfc(given), rel_tol=1e-14)
    assert math.isinf(found["erfinv"][8])
    assert math.isnan(found["erfinv"][9])


def test_bessel_functions() -> None:
    """J by its integral; Y by the Wronskian, and by its own recurrence."""
    x = np.array([1e-3, 0.5, 1.0, 2.4, 5.0, 11.5, 24.0, 26.0, 60.0])
    order = np.full(len(x), 3, np.int32)
    found = values(["j0", "j1", "y0", "y1"], x) | values(["jn", "yn"], order, x)
    t = (np.arange(4000) + 0.5) * np.pi / 4000
    for n, given in enumerate(x):
        for name, k in (("j0", 0), ("j1", 1), ("jn", 3)):
            assert math.isclose(found[name][n], np.cos(k * t - given * np.sin(t)).mean(), rel_tol=1e-8, abs_tol=1e-13)
        wronskian = found["j1"][n] * found["y0"][n] - found["j0"][n] * found["y1"][n]
        assert math.isclose(wronskian, 2 / (math.pi * given), rel_tol=1e-12)
        second = 2 / given * found["y1"][n] - found["y0"][n]
        assert math.isclose(found["yn"][n], 4 / given * second - found["y1"][n], rel_tol=1e-9)
    assert math.isclose(found["y0"][2], 0.08825696421567697, rel_tol=1e-13)


def nearest(exact: Fraction, type_: Any, mode: str) -> float:
    """A number rounded to `type_` toward zero, down or up."""
    guess = type_(exact.numerator / exact.denominator)
    while Fraction(float(guess)) > exact and (mode == "rd" or (mode == "rz" and exact > 0)):
        guess = np.nextafter(guess, type_(-np.inf))
    while Fraction(float(guess)) < exact and (mode == "ru" or (mode == "rz" and exact < 0)):
        guess = np.nextafter(guess, type_(np.inf))
    return float(guess)


EXACT = {
    "add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y, "div": lambda x, y: x / y,
}  # fmt: skip


@pytest.mark.parametrize("mode", ["rz", "rd", "ru"])
def test_directed_rounding(mode: str) -> None:
    for letter, type_ in (("f", np.float32), ("d", np.float64)):
        x, y = SMALL.astype(type_), np.roll(SMALL, 3).astype(type_)
        names = {f"{letter}{name}_{mode}": f for name, f in EXACT.items() if f"{letter}{name}_{mode}" in TABLE}
        for name, got in values(list(names), x, y).items():
            exact = [names[name](Fraction(float(a)), Fraction(float(b))) for a, b in zip(x, y, strict=True)]
            assert got.tolist() == [nearest(e, type_, mode) for e in exact], name
        positive: Any = abs(x)
        found = values([f"{letter}sqrt_{mode}", f"{letter}rcp_{mode}"], positive)
        for a, root, inverse in zip(positive, *found.values(), strict=True):
            assert inverse == nearest(1 / Fraction(float(a)), type_, mode)
            below = Fraction(float(root)) ** 2 <= Fraction(float(a))
            assert below == (mode != "ru") or Fraction(float(root)) ** 2 == Fraction(float(a))
    found = values([f"double2float_{mode}"], FLOATS)
    assert found[f"double2float_{mode}"].tolist() == [nearest(Fraction(v), np.float32, mode) for v in FLOATS]


def test_integers_become_floats_and_back() -> None:
    for integers, short, bits in ((INTEGERS, ("int", "uint"), 32), (LONGS, ("ll", "ull"), 64)):
        for c_name, unsigned in zip(short, (False, True), strict=True):
            whole = [int(v) % (1 << bits) if unsigned else int(v) for v in integers]
            for to, type_ in (("float", np.float32), ("double", np.float64)):
                names = [n for n in (f"{c_name}2{to}_{mode}" for mode in ("rz", "rd", "ru")) if n in TABLE]
                for name, got in (values(names, integers) if names else {}).items():
                    assert got.tolist() == [nearest(Fraction(v), type_, name[-2:]) for v in whole], name
                got = values([f"{c_name}2{to}_rn"], integers)[f"{c_name}2{to}_rn"]
                assert got.tolist() == [float(type_(v)) for v in whole]
    roundings: dict[str, Any] = {"rn": round, "rz": math.trunc, "rd": math.floor, "ru": math.ceil}
    x = np.array([2.5, -2.5, 3.7, 1e9 + 0.5, 0.1, 4e9, 1.0, 2.0, 0.0, 7.5])
    for c_name, low, high in (("int", -(2**31), 2**31 - 1), ("uint", 0, 2**32 - 1), ("ll", -(2**63), 2**63 - 1)):
        found = values([f"double2{c_name}_{mode}" for mode in roundings], x)
        for mode, function in roundings.items():
            got = found[f"double2{c_name}_{mode}"]
            wanted = [min(max(function(v), low), high) for v in x]
            assert [int(v) % 2**64 for v in got] == [
                int(np.array(w, np.uint64 if w >= 0 else np.int64).astype(got.dtype)) % 2**64 for w in wanted
            ]


def test_numbers_are_taken_apart_and_put_together() -> None:
    x = np.array([0.37, -2.5, 1e300, -1e-310, 0.0, 8.0])
    found = values("double2hiint double2loint ilogb signbitd llrint llround frexp modf sincos sincospi".split(), x)
    bits = x.view(np.int64)
    assert (found["double2hiint"] == bits >> 32).all()
    assert (found["double2loint"] == bits.astype(np.int32)).all()
    assert found["ilogb"].tolist() == [math.frexp(v)[1] - 1 if v else -(2**31) for v in x]
    assert found["signbitd"].tolist() == [0, 1, 0, 1, 0, 0]
    assert found["llrint"][[0, 1, 5]].tolist() == [0, -2, 8]
    assert found["llround"][[0, 1, 5]].tolist() == [0, -3, 8]
    assert found["frexp"].tolist() == [list(math.frexp(v)) for v in x]
    assert found["modf"].tolist() == [list(math.modf(v)) for v in x]
    assert np.allclose(found["sincos"][[0, 1, 5]], [[math.sin(v), math.cos(v)] for v in x[[0, 1, 5]]], rtol=1e-15)
    assert found["sincospi"][[1, 5]].tolist() == [[-1, 0], [0, 1]]
    high, low = bits >> 32, bits.astype(np.int32)
    assert values(["hiloint2double"], high.astype(np.int32), low)["hiloint2double"].tolist() == x.tolist()
    half = np.array([0.37, -2.5, 65504, 1e-7, 70000, 1], np.float32)
    packed = values(["float2half_rn"], half)["float2half_rn"]
    with np.errstate(over="ignore"):
        assert (packed == half.astype(np.float16).view(np.int16)).all()
    assert (values(["half2float"], packed)["half2float"] == packed.view(np.float16)).all()


def test_of_two_and_of_three() -> None:
    x, y = SMALL, np.roll(SMALL, 3)
    found = values("remainder nextafter fdim fmod hypot atan2 copysign fmax fmin pow remquo".split(), x, y)
    for name in ("remainder", "nextafter", "fmod", "hypot", "atan2", "copysign"):
        assert np.allclose(found[name], [getattr(math, name)(a, b) for a, b in zip(x, y, strict=True)], rtol=1e-15)
    assert (found["fdim"] == np.maximum(x - y, 0)).all()
    quotients = [round(Fraction(a) / Fraction(b)) for a, b in zip(x, y, strict=True)]
    assert found["remquo"][:, 1].tolist() == [int(math.copysign(abs(q) % 8, q)) for q in quotients]
    i, j, k = INTEGERS, np.roll(INTEGERS, 1), np.roll(INTEGERS, 2)
    a, b = i.astype(np.int64), j.astype(np.int64)
    found = values(["hadd", "rhadd", "uhadd", "urhadd", "mulhi", "mul24"], i, j)
    assert (found["hadd"] == (a + b) >> 1).all()
    assert (found["rhadd"] == (a + b + 1) >> 1).all()
    assert (found["mulhi"] == a * b >> 32).all()
    a, b = a & 0xFFFFFFFF, b & 0xFFFFFFFF
    assert (found["uhadd"] == ((a + b) >> 1).astype(np.int32)).all()
    assert (found["urhadd"] == ((a + b + 1) >> 1).astype(np.int32)).all()
    found = values(["sad", "usad", "byte_perm"], i, j, k)
    assert (found["sad"] == (abs(i.astype(np.int64) - j) + k).astype(np.int32)).all()
    assert (found["usad"] == (abs(a - b) + k).astype(np.int32)).all()
    for n, (low, high, selector) in enumerate(zip(i, j, k, strict=True)):
        parts = low.tobytes() + high.tobytes()
        wanted = bytes(parts[int(selector) >> 4 * p & 7] for p in range(4))
        assert found["byte_perm"][n].tobytes() == wanted
    powers = values(["ldexp", "scalbn", "powi"], SMALL, np.arange(-5, 5, dtype=np.int32))
    assert (powers["ldexp"] == SMALL * 2.0 ** np.arange(-5, 5)).all()
    assert (powers["scalbn"] == powers["ldexp"]).all()
    assert np.allclose(powers["powi"], SMALL ** np.arange(-5.0, 5), rtol=1e-14)
