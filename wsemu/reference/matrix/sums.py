"""Compute one element of a matrix product, in exact arithmetic.

Floats follow the measured rules W1 to W8; `model/matrix.py` declares how each architecture adds.
"""

from __future__ import annotations

import functools
import math
from fractions import Fraction
from typing import TYPE_CHECKING

from wsemu.model.data import NamedTuple
from wsemu.model.matrix import BYTE_FLOATS, FORMATS, LEAST_TOP, ROUNDS_ONCE, SATURATES, Format
from wsemu.reference.arithmetic import from_float, semantics, to_float, to_signed, to_unsigned

if TYPE_CHECKING:
    from wsemu.model.arch import TensorCore
    from wsemu.model.matrix import Mma


class Float(NamedTuple):
    """A decoded float: significand * 2 ** (exponent - fraction), an infinity, or a nan."""

    negative: bool
    exponent: int
    significand: int
    fraction: int
    kind: str = ""


def decode_float(bits: int, format_: Format, *, normal: bool = False) -> Float:
    """Decode a float.  With `normal`, a subnormal number is normalized, as it is in a type with a wider exponent."""
    bits >>= format_.dropped
    fraction = format_.mantissa
    negative = bool(bits >> (format_.exponent + fraction) & 1)
    field, low = bits >> fraction & ((1 << format_.exponent) - 1), bits & ((1 << fraction) - 1)
    if field == (1 << format_.exponent) - 1:
        if format_.infinite == 1:
            return Float(negative, 0, 1, 0, "nan" if low else "inf")
        if not format_.infinite and low == (1 << fraction) - 1:
            return Float(negative, 0, 1, 0, "nan")
    exponent, significand = (field, low | 1 << fraction) if field else (1, low)
    while normal and significand and not significand >> fraction:
        exponent, significand = exponent - 1, significand << 1
    return Float(negative, exponent - format_.bias, significand, fraction)


class Operands(NamedTuple):
    """Elements of a row of a, or of a column of b, by ascending k."""

    significands: list[int]
    """significands as integers with their signs"""
    exponents: list[int]
    fraction: int
    special: dict[int, Float]
    """k -> the infinity or nan there"""


class Products(NamedTuple):
    """Exact products of elements, significand * 2 ** (exponent - fraction), not normalized."""

    significands: list[int]
    exponents: list[int]
    fraction: int
    special: dict[int, tuple[str, bool]]
    """k -> "inf" or "nan", and whether it is negative"""

    def some(self, ks: range | list[int]) -> Products:
        significands, exponents = [self.significands[k] for k in ks], [self.exponents[k] for k in ks]
        special = {k: kind for k, kind in self.special.items() if k in ks}
        return Products(significands, exponents, self.fraction, special)


@functools.lru_cache(1 << 10)
def _operands(row: tuple[int, ...], type_: str, normal: bool = False) -> Operands:
    """Decode a row; cached, because many elements of the result use it."""
    floats = [decode_float(bits, FORMATS[type_], normal=normal) for bits in row]
    return Operands(
        [-x.significand if x.negative else x.significand for x in floats],
        [x.exponent for x in floats],
        FORMATS[type_].mantissa,
        {k: x for k, x in enumerate(floats) if x.kind},
    )


def _multiply(a: Operands, b: Operands) -> Products:
    return Products(
        [x * y for x, y in zip(a.significands, b.significands, strict=True)],
        [x + y for x, y in zip(a.exponents, b.exponents, strict=True)],
        a.fraction + b.fraction,
        {k: _special_result(a, b, k) for k in a.special.keys() | b.special.keys()},
    )


def _special_result(a: Operands, b: Operands, k: int) -> tuple[str, bool]:
    kinds = [of.special[k].kind for of in (a, b) if k in of.special]
    negative = [of.special[k].negative if k in of.special else of.significands[k] < 0 for of in (a, b)]
    infinite = "nan" not in kinds and a.significands[k] and b.significands[k]
    return "inf" if infinite else "nan", negative[0] != negative[1]


def add_products(products: Products, start: Float, bits: int, to: str, fraction: int) -> int:
    """Add products to `start`; return the bits of an f32 that is truncated to `fraction` bits, or of an f16."""
    infinity, nan = (0x7C00, 0x7FFF) if to == "f16" else (0x7F800000, 0x7FFFFFFF)
    kinds = {*products.special.values()} | ({(start.kind, start.negative)} if start.kind else set())
    if any(kind == "nan" for kind, _ in kinds) or len(kinds) > 1:
        return nan
    sign = 0x8000 if to == "f16" else 0x80000000
    if kinds:
        return infinity | sign * next(iter(kinds))[1]
    terms = [(x, e, products.fraction) for x, e in zip(products.significands, products.exponents, strict=True) if x]
    if start.significand:
        terms.append((-start.significand if start.negative else start.significand, start.exponent, start.fraction))
    if not terms:
        return 0
    unit = max(LEAST_TOP[to], max([exponent for _, exponent, _ in terms])) - bits
    total = 0
    for significand, exponent, below in terms:
        up = exponent - below - unit
        if up >= 0:
            total += significand << up
        else:  # toward zero
            total += significand >> -up if significand > 0 else -(-significand >> -up)
    size = round_result(abs(total), unit, to, fraction)
    return size | sign * (total < 0 and size > 0)


def round_result(size: int, unit: int, to: str, fraction: int) -> int:
    """Return the bits of size * 2 ** unit: an f16 rounded to nearest even, or an f32 cut toward zero."""
    if not size:
        return 0
    mantissa, least, bias, infinity = (10, -14, 15, 0x7C00) if to == "f16" else (23, -126, 127, 0x7F800000)
    kept = 10 if to == "f16" else fraction
    exponent = max(size.bit_length() - 1 + unit, least)
    step = exponent - kept - unit
    number, rest = (size >> step, size & ((1 << step) - 1)) if step > 0 else (size << -step, 0)
    if to == "f16" and step > 0:
        half = 1 << step - 1
        number += rest > half or (rest == half and number & 1)
    return min((exponent + bias - 1 << mantissa) + (number << mantissa - kept), infinity)


def element(
    shape: Mma, tensor: TensorCore, row: tuple[int, ...], column: tuple[int, ...], before: int, auxiliary: int, *,
    whole: bool = False,
) -> int:  # fmt: skip
    """Return the bits of an element of the result, from a row of a and a column of b by ascending k.  `whole` adds all
    k at once."""
    if shape.a == "f64":
        return _doubles(row, column, before)
    if shape.a not in FORMATS:
        return _integers(shape, row, column, before, bool(auxiliary & SATURATES))
    if auxiliary & ROUNDS_ONCE:
        return _round_to_nearest(shape, row, column, before)
    bytes_ = shape.a in BYTE_FLOATS and not shape.kind
    hopper_bytes = bytes_ and not tensor.byte_bits
    # both types become f16, in which the subnormal numbers of e4m3 are normal
    raised = [hopper_bytes and FORMATS[of].bias < FORMATS["f16"].bias for of in (shape.a, shape.b)]
    products = _multiply(_operands(row, shape.a, raised[0]), _operands(column, shape.b, raised[1]))

    def step(some: Products, start: int, bits: int, fraction: int = 23) -> int:
        return add_products(some, decode_float(start, FORMATS[shape.c]), bits, shape.d, fraction)

    count, bits, fraction = len(row), 25 if shape.kind else tensor.bits, 23
    if hopper_bytes:
        low = step(products.some([k for k in range(count) if k % 4 < 2]), 0, bits)
        high = step(products.some([k for k in range(count) if k % 4 >= 2]), low, bits)
        return _to_nearest(high, before, shape.d)
    if bytes_:
        count, bits, fraction = len(row) if whole else 16, tensor.byte_bits, tensor.byte_bits
    elif tensor.halves and not shape.kind:
        count = 4 * shape.parts
    for first in range(0, len(row), count):
        before = step(products.some(range(first, min(first + count, len(row)))), before, bits, fraction)
    return before


def _round_to_nearest(shape: Mma, row: tuple[int, ...], column: tuple[int, ...], before: int) -> int:
    """Return the exact sum, rounded once, to nearest even."""
    products, start = (
        _multiply(_operands(row, shape.a), _operands(column, shape.b)),
        decode_float(before, FORMATS[shape.c]),
    )
    if products.special or start.kind:
        return add_products(products, start, 24, shape.d, 23)
    total = (-1 if start.negative else 1) * start.significand * Fraction(2) ** (start.exponent - start.fraction)
    for significand, exponent in zip(products.significands, products.exponents, strict=True):
        total += significand * Fraction(2) ** (exponent - products.fraction)
    fraction, least, bias, infinity = (10, -14, 15, 0x7C00) if shape.d == "f16" else (23, -126, 127, 0x7F800000)
    if not total:
        return 0
    exponent = least
    while Fraction(2) ** (exponent + 1) <= abs(total):
        exponent += 1
    number = round(abs(total) / Fraction(2) ** (exponent - fraction))  # a half is rounded to even
    bits = min((exponent + bias - 1 << fraction) + number, infinity)
    return bits | (total < 0 and bits > 0) << FORMATS[shape.d].bits - 1


def _to_nearest(x: int, y: int, type_: str) -> int:
    """Return the sum of two f32 or f16, rounded to nearest."""
    if type_ == "f32":
        result = semantics["add.f32"](x, y)
        return 0x7FFFFFFF if result & 0x7FFFFFFF > 0x7F800000 else result
    first, second = to_float(x, "f16"), to_float(y, "f16")
    total = first + second
    if math.isnan(total):
        return 0x7FFF
    if math.isinf(total):
        return from_float(total, "f16")
    exact = Fraction(first) + Fraction(second)
    size = round_result(int(abs(exact) * 2**24), -24, "f16", 10)
    return size | (0x8000 if exact < 0 and size else 0)


def _doubles(row: tuple[int, ...], column: tuple[int, ...], total: int) -> int:
    """Compute a chain of fused multiply-adds; of several nans, return that of b, or else that of c, or else that of
    a."""
    for x, y in zip(row, column, strict=True):
        nans = [value for value in (y, total, x) if value & (1 << 63) - 1 > 0x7FF << 52]
        fused = semantics["fma.f64"](x, y, total)
        made = fused & (1 << 63) - 1 > 0x7FF << 52
        total = nans[0] | 1 << 51 if nans else 0x7FF8 << 48 if made else fused
    return total


def _integers(shape: Mma, row: tuple[int, ...], column: tuple[int, ...], before: int, saturates: bool) -> int:
    terms = zip(row, column, strict=True)
    if shape.combine == "mul":
        total = sum(_integer(x, shape.a) * _integer(y, shape.b) for x, y in terms)
    else:
        total = sum((x ^ y if shape.combine == "xor" else x & y).bit_count() for x, y in terms)
    total += to_signed(before, 32)
    if saturates:
        total = min(max(total, -(1 << 31)), (1 << 31) - 1)
    return to_unsigned(total, 32)


def _integer(bits: int, type_: str) -> int:
    return to_signed(bits, int(type_[1:])) if type_[0] == "s" else bits
