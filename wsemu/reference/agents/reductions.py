"""Semantics of `cp.reduce.async.bulk` on an element, in exact arithmetic (measured rule T10).

Sums of floats are rounded to nearest even and keep subnormals; a minimum or maximum ignores a nan.  A nan result is
0x7fffffff (f32) or 0x7fff (f16, bf16); for f64 it is the operand's nan.
"""

from __future__ import annotations

import math
import operator
from fractions import Fraction
from typing import TYPE_CHECKING

from wsemu.reference.arithmetic import from_float, semantics, to_float, to_signed, to_unsigned

if TYPE_CHECKING:
    from collections.abc import Callable

SIZES = {
    "u32": 4, "s32": 4, "b32": 4, "f32": 4, "u64": 8, "s64": 8, "b64": 8, "f64": 8, "f16": 2, "bf16": 2,
}  # fmt: skip
"""size of an element in bytes"""
_NAN = {"f16": 0x7FFF, "bf16": 0x7FFF, "f32": 0x7FFFFFFF}
_INTEGER: dict[str, Callable[[int, int], int]] = {
    "add": operator.add,
    "min": min,
    "max": max,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "inc": lambda old, limit: 0 if old >= limit else old + 1,
    "dec": lambda old, limit: limit if old == 0 or old > limit else old - 1,
}


def combine_elements(what: str, type_: str, old: bytes, new: bytes) -> bytes:
    """Return the elements of `old`, each combined with the element of `new` at the same position."""
    size = SIZES[type_]
    meaning = _float if type_ in ("f16", "bf16", "f32", "f64") else _integer
    return b"".join(
        meaning(
            what, type_, int.from_bytes(old[at : at + size], "little"), int.from_bytes(new[at : at + size], "little")
        ).to_bytes(size, "little")
        for at in range(0, len(old), size)
    )


def flush_subnormals(data: bytes) -> bytes:
    """Return f32 elements with subnormals replaced by zero (measured rule T27)."""
    words = (data[at : at + 4] for at in range(0, len(data), 4))
    return b"".join(word if int.from_bytes(word, "little") & 0x7F800000 else bytes(4) for word in words)


def _integer(what: str, type_: str, a: int, b: int) -> int:
    bits = 8 * SIZES[type_]
    if type_[0] == "s":
        a, b = to_signed(a, bits), to_signed(b, bits)
    return to_unsigned(_INTEGER[what](a, b), bits)


def _float(what: str, type_: str, a: int, b: int) -> int:
    x, y = _decode_float(a, type_), _decode_float(b, type_)
    if what == "add":
        if type_ == "f64" and (math.isnan(x) or math.isnan(y)):
            return (a if math.isnan(x) else b) | 1 << 51
        return _encode_sum(x, y, type_)
    if math.isnan(x) and math.isnan(y):
        return _NAN[type_]
    if math.isnan(x) or math.isnan(y):
        return b if math.isnan(x) else a
    lower = semantics["min.f32"](from_float(x, "f32"), from_float(y, "f32")) == from_float(x, "f32")
    return a if lower == (what == "min") else b


def _decode_float(bits: int, type_: str) -> float:
    """Decode a float; a bf16 is the upper half of an f32."""
    return to_float(bits << 16, "f32") if type_ == "bf16" else to_float(bits, type_)


def _encode_sum(x: float, y: float, type_: str) -> int:
    """Return x + y, rounded once."""
    if not (math.isfinite(x) and math.isfinite(y)):
        total = x + y
        if math.isnan(total):
            return _NAN.get(type_, 0x7FF8000000000000)
        return from_float(total, "f32") >> 16 if type_ == "bf16" else from_float(total, type_)
    exact = Fraction(x) + Fraction(y)
    if exact == 0:  # -0 only from -0 + -0
        negative = math.copysign(1.0, x) < 0 and math.copysign(1.0, y) < 0
        return (1 << (8 * SIZES[type_] - 1)) if negative else 0
    return _brain(exact) if type_ == "bf16" else _round_to_bits(exact, type_)


def _round_to_bits(exact: Fraction, type_: str) -> int:
    from wsemu.reference.arithmetic import round_to_nearest

    return from_float(round_to_nearest(exact, type_), type_)


def _brain(exact: Fraction) -> int:
    """Encode a nonzero number as bf16, with 8 bits of precision and the exponents of f32."""
    size = abs(exact)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= Fraction(2) ** exponent > size
    unit = Fraction(2) ** (max(exponent, -126) - 7)
    steps = round(size / unit)  # half to even
    value = float(min(steps * unit, Fraction(2) ** 128)) if steps * unit < Fraction(2) ** 128 else math.inf
    bits = from_float(value, "f32") >> 16
    return bits | (0x8000 if exact < 0 else 0)
