"""Arithmetic of PTX in Python integers and fractions: what the tests of the PTX front end compare with.

A value is a bit pattern, a Python integer.  Every floating-point format here is part of double, so a number is decoded
to a float without loss; results are exact fractions, rounded once.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple


class Format(NamedTuple):
    """Bits, bits of the significand with the hidden one, exponent of the least normal number."""

    bits: int
    precision: int
    least: int

    @property
    def infinity(self) -> int:
        return ((1 << (self.bits - self.precision)) - 1) << (self.precision - 1)

    @property
    def sign(self) -> int:
        return 1 << (self.bits - 1)


FORMATS = {
    "f16": Format(16, 11, -14),
    "bf16": Format(16, 8, -126),
    "f32": Format(32, 24, -126),
    "f64": Format(64, 53, -1022),
}
NAN = {"f16": 0x7FFF, "bf16": 0x7FFF, "f32": 0x7FFFFFFF, "f64": 0x7FF8000000000000}


def signed(x: int, n: int) -> int:
    x &= (1 << n) - 1
    return x - (1 << n) if x >> (n - 1) else x


def value(x: int, t: str) -> int:
    """The number that an integer type reads."""
    n = int(t[1:])
    return signed(x, n) if t[0] == "s" else x & ((1 << n) - 1)


def decode(x: int, t: str) -> float:
    if t == "bf16":
        return decode(x << 16, "f32")
    code = {"f16": "<e", "f32": "<f", "f64": "<d"}[t]
    return float(struct.unpack(code, x.to_bytes(FORMATS[t].bits // 8, "little"))[0])


def encode(v: Fraction | float, t: str, mode: str = "rn", zero: float = 0.0) -> int:
    """The pattern of v rounded to nearest even (rn, or away from zero at a tie: rna), toward zero (rz), down (rm) or
    up (rp); `zero` has the sign of a v that is 0."""
    f = FORMATS[t]
    if isinstance(v, float) and not math.isfinite(v):
        return NAN[t] if math.isnan(v) else f.infinity | (f.sign if v < 0 else 0)
    v = Fraction(v)
    negative = v < 0 or (v == 0 and math.copysign(1.0, zero) < 0)
    sign = f.sign if negative else 0
    size = abs(v)
    if size == 0:
        return sign
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= Fraction(2) ** exponent > size
    least = f.least - f.precision + 1
    unit = max(exponent - f.precision + 1, least)
    steps = size / Fraction(2) ** unit
    whole = math.floor(steps)
    rest = steps - whole
    half = Fraction(1, 2)
    up = {
        "rn": rest > half or (rest == half and whole % 2 == 1),
        "rna": rest >= half,
        "rz": False,
        "rm": negative and rest > 0,
        "rp": not negative and rest > 0,
    }[mode]
    pattern = ((unit - least) << (f.precision - 1)) + whole + up
    if pattern >= f.infinity:
        outward = mode in ("rn", "rna") or mode == ("rm" if negative else "rp")
        pattern = f.infinity if outward else f.infinity - 1
    return sign | pattern


def flush(x: int, t: str) -> int:
    f = FORMATS[t]
    return x if x & f.infinity else x & f.sign


def is_nan(x: int, t: str) -> bool:
    f = FORMATS[t]
    return x & ~f.sign > f.infinity


def _sign(x: float) -> float:
    return math.copysign(1.0, x)


def zero_sum(mode: str, x: float, y: float) -> float:
    """The zero that numbers of these signs add up to."""
    return math.copysign(0.0, x) if _sign(x) == _sign(y) else -0.0 if mode == "rm" else 0.0


def fma(a: float, b: float, c: float, t: str, mode: str) -> int:
    if not (math.isfinite(a) and math.isfinite(b)):
        return encode(a * b + c, t)
    if not math.isfinite(c):
        return encode(c, t)
    return encode(Fraction(a) * Fraction(b) + Fraction(c), t, mode, zero_sum(mode, _sign(a) * _sign(b), c))


def product(a: float, b: float, t: str, mode: str) -> int:
    if not (math.isfinite(a) and math.isfinite(b)):
        return encode(a * b, t)
    return encode(Fraction(a) * Fraction(b), t, mode, _sign(a) * _sign(b))


def quotient(a: float, b: float, t: str, mode: str) -> int:
    if math.isnan(a) or math.isnan(b) or (a == b == 0) or (math.isinf(a) and math.isinf(b)):
        return NAN[t]
    sign = _sign(a) * _sign(b)
    if b == 0 or math.isinf(a):
        return encode(math.copysign(math.inf, sign), t)
    if math.isinf(b):
        return encode(0, t, mode, sign)
    return encode(Fraction(a) / Fraction(b), t, mode, sign)


def root(a: float, t: str, mode: str) -> int:
    if math.isnan(a) or a < 0:
        return NAN[t]
    if a == 0 or math.isinf(a):
        return encode(a, t, zero=a)
    shift = 1400  # units small enough that no two results fall between neighbours
    scaled = Fraction(a) * 4**shift
    whole = math.isqrt(int(scaled))
    return encode(Fraction(2 * whole + (whole * whole != scaled), 2 << shift), t, mode)


def extreme(what: str, x: int, y: int, t: str) -> int:
    """min or max: of a number and a nan the number; -0 below +0."""
    if is_nan(x, t) or is_nan(y, t):
        return NAN[t] if is_nan(x, t) and is_nan(y, t) else y if is_nan(x, t) else x
    a, b = decode(x, t), decode(y, t)
    first = (a, _sign(a)) < (b, _sign(b))
    return x if first == (what == "min") else y


def saturate(x: int, t: str) -> int:
    v = decode(x, t)
    return 0 if math.isnan(v) else encode(min(max(v, 0.0), 1.0), t, zero=0.0)


_WHOLE: dict[str, Callable[[Fraction], int]] = {
    "rni": round,
    "rzi": math.trunc,
    "rmi": math.floor,
    "rpi": math.ceil,
}


def to_integer(v: float, t: str, rounding: str, source: str) -> int:
    """A float as an integer: saturated; a nan is 0, or the sign bit alone where 64 bits take part."""
    n = int(t[1:])
    if math.isnan(v):
        return 1 << (n - 1) if source == "f64" or n == 64 else 0
    low, high = (-(1 << (n - 1)), (1 << (n - 1)) - 1) if t[0] == "s" else (0, (1 << n) - 1)
    if math.isinf(v):
        return (high if v > 0 else low) & ((1 << n) - 1)
    whole = _WHOLE[rounding](Fraction(v))
    return max(low, min(whole, high)) & ((1 << n) - 1)


def integral(v: float, rounding: str) -> float:
    if not math.isfinite(v):
        return v
    whole = _WHOLE[rounding](Fraction(v))
    return math.copysign(float(whole), v)
