"""Elements of a product of `tcgen05.mma`, in exact arithmetic, by the published model of the hardware.

Products and the accumulator are added at once.  The exponent of a term is the sum of the exponents of its factors,
without normalization of subnormal numbers; a zero counts with the smallest exponent.  Each term is truncated a fixed
number of bits below the largest exponent.  The exact sum of the truncated terms is truncated to an f32, or rounded to
nearest even to an f16 (arXiv 2511.10909).
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from wsemu.model.data import NamedTuple
from wsemu.reference.arithmetic import to_signed, to_unsigned
from wsemu.reference.matrix.sums import round_result

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wsemu.model.tensor_memory import Element

BITS, FLOORS = 25, {"f32": -133, "f16": -21}
GROUP_BITS, GROUP_FLOOR = 35, -139
"""fraction bits and smallest exponent of sums of groups of 16 elements with scale factors"""


class Number(NamedTuple):
    """A number, significand * 2 ** (exponent - fraction), or an infinity or a nan."""

    significand: int
    exponent: int
    fraction: int
    kind: str = ""


_RESULTS = {"f32": (8, 23, 127, 0x7FFFFFFF), "f16": (5, 10, 15, 0x7FFF)}
"""type of a sum -> exponent bits, mantissa bits, bias, nan"""


@functools.lru_cache(1 << 14)
def float_value(bits: int, exponent: int, mantissa: int, bias: int, special: int) -> Number:
    """Decode the bits of a float."""
    sign = -1 if bits >> (exponent + mantissa) & 1 else 1
    field, low = bits >> mantissa & ((1 << exponent) - 1), bits & ((1 << mantissa) - 1)
    if field == (1 << exponent) - 1 and special:
        if special == 2:
            return Number(sign, 0, 0, "nan" if low else "inf")
        if low == (1 << mantissa) - 1:
            return Number(sign, 0, 0, "nan")
    significand = low | 1 << mantissa if field else low
    return Number(sign * significand, (field or 1) - bias, mantissa)


def element_number(bits: int, element: Element) -> Number:
    """Return the value of an element of A or B, which is in the high bits of its container."""
    return float_value(bits >> element.dropped, element.exponent, element.mantissa, element.bias, element.special)


def _accumulator_value(bits: int, type_: str) -> Number:
    exponent, mantissa, bias, _ = _RESULTS[type_]
    return float_value(bits, exponent, mantissa, bias, 2)


def _special(kinds: set[tuple[str, bool]], type_: str) -> int:
    """Return the result if some terms are nans or infinities."""
    exponent, mantissa, _, nan = _RESULTS[type_]
    if any(kind == "nan" for kind, _ in kinds) or len(kinds) > 1:
        return nan
    infinity = ((1 << exponent) - 1) << mantissa
    return infinity | next(iter(kinds))[1] << (exponent + mantissa)


def _add_terms(terms: list[tuple[int, int, int]], bits: int, floor: int, type_: str) -> int:
    """Return the bits of the sum of significand * 2 ** (exponent - fraction)."""
    top = max([floor, *(exponent for significand, exponent, _ in terms if significand)])
    total = 0
    for significand, exponent, fraction in terms:
        up = exponent - fraction - top + bits
        size = abs(significand) << up if up >= 0 else abs(significand) >> -up
        total += size if significand > 0 else -size
    size = round_result(abs(total), top - bits, type_, 23)
    exponent_bits, mantissa, *_ = _RESULTS[type_]
    return size | (total < 0 and size > 0) << (exponent_bits + mantissa)


def add_products(
    row: Sequence[Number], column: Sequence[Number], before: int, type_: str, up: int = 0, *, is_nan: bool = False
) -> int:
    """Return the bits of a sum.  `up` are exponents of scale factors; `is_nan` means that one of the factors is a
    nan."""
    start = _accumulator_value(before, type_)
    terms, kinds = [(start.significand, start.exponent, start.fraction)], set[tuple[str, bool]]()
    if start.kind:
        kinds.add((start.kind, start.significand < 0))
    if is_nan:
        kinds.add(("nan", False))
    for x, y in zip(row, column, strict=True):
        if x.kind or y.kind:
            infinite = "nan" not in (x.kind, y.kind) and x.significand and y.significand
            kinds.add(("inf" if infinite else "nan", (x.significand < 0) != (y.significand < 0)))
        terms.append((x.significand * y.significand, x.exponent + y.exponent + up, x.fraction + y.fraction))
    if kinds:
        return _special(kinds, type_)
    return _add_terms(terms, BITS, FLOORS[type_], type_)


def add_groups(
    row: Sequence[Number], column: Sequence[Number], before: int, of_a: Sequence[Number], of_b: Sequence[Number]
) -> int:
    """Return the bits of an f32: the products of each 16 elements are added exactly, and multiplied by a factor of the
    row and a factor of the column.  The exponent of a sum of 16 counts also if the sum is 0, unless all its products
    are."""
    start = _accumulator_value(before, "f32")
    if start.kind == "nan" or any(factor.kind for factor in (*of_a, *of_b)):
        return _RESULTS["f32"][3]
    if start.kind:
        return before
    terms, floor = [(start.significand, start.exponent, start.fraction)], GROUP_FLOOR
    for g, (x, y) in enumerate(zip(of_a, of_b, strict=True)):
        inside = range(16 * g, 16 * g + 16)
        fraction = row[0].fraction + column[0].fraction
        products = [
            row[k].significand * column[k].significand << row[k].exponent + column[k].exponent for k in inside
        ]  # fmt: skip
        total = sum(products) * x.significand * y.significand
        terms.append((total, x.exponent + y.exponent, fraction + x.fraction + y.fraction))
        if any(products) and x.significand and y.significand:
            floor = max(floor, x.exponent + y.exponent)
    return _add_terms(terms, GROUP_BITS, floor, "f32")


def add_integers(row: Sequence[int], column: Sequence[int], before: int, *, clamps: bool) -> int:
    """Return the bits of an s32."""
    total = sum(x * y for x, y in zip(row, column, strict=True)) + to_signed(before, 32)
    if clamps:
        total = min(max(total, -(1 << 31)), (1 << 31) - 1)
    return to_unsigned(total, 32)


def scale_factor(bits: int, *, fine: bool) -> Number:
    """Return a scale factor: ue4m3, whose sign is ignored, if `fine`, else ue8m0."""
    if fine:
        return float_value(bits & 0x7F, 4, 3, 7, 1)
    return Number(1, bits - 127, 0, "nan" if bits == 0xFF else "")
