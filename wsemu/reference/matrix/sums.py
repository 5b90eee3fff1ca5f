"""What one element of a matrix product is, in exact arithmetic.

Floats: measured rules W1 to W8; `model/matrix.py` says which architecture adds how.
"""

from __future__ import annotations

import functools
import math
from fractions import Fraction
from typing import TYPE_CHECKING

from wsemu.model.data import NamedTuple
from wsemu.model.matrix import BYTE_FLOATS, FORMATS, LEAST_TOP, ROUNDS_ONCE, SATURATES, Format
from wsemu.reference.arithmetic import from_float, semantics, signed, to_float, unsigned

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wsemu.model.matrix import Mma, TensorCore

Terms = list[tuple[int, int]]
"""bits of an element of a and of b, by ascending k"""


class Float(NamedTuple):
    """A number as the tensor core sees it: significand * 2 ** (exponent - fraction), or an infinity, or a nan."""

    negative: bool
    exponent: int
    significand: int
    fraction: int
    kind: str = ""


def decoded(bits: int, format_: Format, *, normal: bool = False) -> Float:
    """`normal`: a subnormal number is shifted to where one of a wider type has it."""
    bits >>= format_.dropped
    fraction = format_.mantissa
    negative = bool(bits >> (format_.exponent + fraction) & 1)
    field, low = bits >> fraction & ((1 << format_.exponent) - 1), bits & ((1 << fraction) - 1)
    if field == (1 << format_.exponent) - 1:
        if format_.infinite:
            return Float(negative, 0, 1, 0, "nan" if low else "inf")
        if low == (1 << fraction) - 1:
            return Float(negative, 0, 1, 0, "nan")
    exponent, significand = (field, low | 1 << fraction) if field else (1, low)
    while normal and significand and not significand >> fraction:
        exponent, significand = exponent - 1, significand << 1
    return Float(negative, exponent - format_.bias, significand, fraction)


@functools.lru_cache(1 << 16)
def _operand(bits: int, type_: str, normal: bool) -> Float:
    """An element of a or b, which many elements of the result have a part in."""
    return decoded(bits, FORMATS[type_], normal=normal)


def product(x: Float, y: Float) -> Float:
    """Exact; it is not normalised."""
    negative = x.negative != y.negative
    if x.kind or y.kind:
        finite = x.significand and y.significand and "nan" not in (x.kind, y.kind)
        return Float(negative, 0, 1, 0, "inf" if finite else "nan")
    return Float(negative, x.exponent + y.exponent, x.significand * y.significand, x.fraction + y.fraction)


def added(terms: Sequence[Float], bits: int, to: str, fraction: int) -> int:
    """Their sum, as bits of an f32 cut to `fraction` bits, or of an f16."""
    infinity, nan = (0x7C00, 0x7FFF) if to == "f16" else (0x7F800000, 0x7FFFFFFF)
    kinds = {(term.kind, term.negative) for term in terms if term.kind}
    if any(kind == "nan" for kind, _ in kinds) or len(kinds) > 1:
        return nan
    sign = 0x8000 if to == "f16" else 0x80000000
    if kinds:
        return infinity | sign * next(iter(kinds))[1]
    present = [term for term in terms if term.significand]
    if not present:
        return 0
    unit = max(LEAST_TOP[to], *(term.exponent for term in present)) - bits
    total = 0
    for term in present:
        up = term.exponent - term.fraction - unit
        size = term.significand << up if up >= 0 else term.significand >> -up
        total += -size if term.negative else size
    size = rounded(abs(total), unit, to, fraction)
    return size | sign * (total < 0 and size > 0)


def rounded(size: int, unit: int, to: str, fraction: int) -> int:
    """Bits of size * 2 ** unit: of f16 to nearest even, of f32 cut toward zero."""
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
    shape: Mma, tensor: TensorCore, terms: Terms, before: int, auxiliary: int, *, whole: bool = False
) -> int:  # fmt: skip
    """Bits of an element of the result; `whole`: all k are added at once."""
    if shape.a == "f64":
        return _doubles(terms, before)
    if shape.a not in FORMATS:
        return _integers(shape, terms, before, bool(auxiliary & SATURATES))
    if auxiliary & ROUNDS_ONCE:
        return _nearest(shape, terms, before)
    hopper_bytes = shape.a in BYTE_FLOATS and not tensor.byte_bits
    # e4m3 has numbers below its normal ones that f16, which both become, has among its own
    raised = [hopper_bytes and FORMATS[of].bias < FORMATS["f16"].bias for of in (shape.a, shape.b)]
    products = [product(_operand(x, shape.a, raised[0]), _operand(y, shape.b, raised[1])) for x, y in terms]

    def step(some: Sequence[Float], start: int, bits: int, fraction: int = 23) -> int:
        return added([*some, decoded(start, FORMATS[shape.c])], bits, shape.d, fraction)

    if hopper_bytes:
        low = step([p for k, p in enumerate(products) if k % 4 < 2], 0, tensor.bits)
        high = step([p for k, p in enumerate(products) if k % 4 >= 2], low, tensor.bits)
        return _to_nearest(high, before, shape.d)
    count, bits, fraction = len(products), tensor.bits, 23
    if shape.a in BYTE_FLOATS:
        count, bits, fraction = len(products) if whole else 16, tensor.byte_bits, tensor.byte_bits
    elif tensor.halves:
        count = 4 * shape.parts
    for first in range(0, len(products), count):
        before = step(products[first : first + count], before, bits, fraction)
    return before


def _nearest(shape: Mma, terms: Terms, before: int) -> int:
    """The exact sum, rounded once, to nearest even."""
    numbers = [product(decoded(x, FORMATS[shape.a]), decoded(y, FORMATS[shape.b])) for x, y in terms]
    numbers.append(decoded(before, FORMATS[shape.c]))
    if any(number.kind for number in numbers):
        return added(numbers, 24, shape.d, 23)
    total = sum((-1 if x.negative else 1) * x.significand * Fraction(2) ** (x.exponent - x.fraction) for x in numbers)
    fraction, least, bias, infinity = (10, -14, 15, 0x7C00) if shape.d == "f16" else (23, -126, 127, 0x7F800000)
    if not total:
        return 0
    exponent = least
    while Fraction(2) ** (exponent + 1) <= abs(total):
        exponent += 1
    number = round(abs(total) / Fraction(2) ** (exponent - fraction))  # of a half to the even one
    bits = min((exponent + bias - 1 << fraction) + number, infinity)
    return bits | (total < 0 and bits > 0) << FORMATS[shape.d].bits - 1


def _to_nearest(x: int, y: int, type_: str) -> int:
    """The sum of two f32 or f16."""
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
    size = rounded(int(abs(exact) * 2**24), -24, "f16", 10)
    return size | (0x8000 if exact < 0 and size else 0)


def _doubles(terms: Terms, total: int) -> int:
    """One fused multiplication and addition after the other; of nans that of b, then of c, then of a comes through."""
    for x, y in terms:
        nans = [value for value in (y, total, x) if value & (1 << 63) - 1 > 0x7FF << 52]
        fused = semantics["fma.f64"](x, y, total)
        made = fused & (1 << 63) - 1 > 0x7FF << 52
        total = nans[0] | 1 << 51 if nans else 0x7FF8 << 48 if made else fused
    return total


def _integers(shape: Mma, terms: Terms, before: int, saturates: bool) -> int:
    if shape.combine == "mul":
        total = sum(_integer(x, shape.a) * _integer(y, shape.b) for x, y in terms)
    else:
        total = sum((x ^ y if shape.combine == "xor" else x & y).bit_count() for x, y in terms)
    total += signed(before, 32)
    if saturates:
        total = min(max(total, -(1 << 31)), (1 << 31) - 1)
    return unsigned(total, 32)


def _integer(bits: int, type_: str) -> int:
    return signed(bits, int(type_[1:])) if type_[0] == "s" else bits
