"""Undefined bits of a result: one operation at a time, on masks of undefined bits.

`undefined_result(name, values, masks)` takes the operands of an arithmetic operation as bit patterns, and for each
operand the mask of its undefined bits.  It returns the mask of the result.  A bit of the result is defined if it has
one value for all values of the undefined bits, as far as the rules below determine.  The rules are exact for moves,
bitwise operations, sums, shifts, fields, conversions between integers and comparisons by range.  For products, all bits
above the lowest possible difference are undefined.  For all other operations, such as floating-point arithmetic, one
undefined bit of an operand makes all bits of the result undefined.  If both operands are the same register (`same`), `x
^ x` and `x - x` are defined.

Reference: J. Seward, N. Nethercote, "Using Valgrind to detect undefined value errors with bit-precision", USENIX 2005.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from wsemu.model.isa import OPERATIONS, SIZE
from wsemu.reference.arithmetic import semantics, to_signed

Masks = Sequence[int]
Rule = Callable[[Sequence[int], Masks, int], int]
"""(values of the operands, their undefined bits, bits of the result) -> undefined bits of the result"""

_MOVED: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(("mov", "varying", "not", "brev"), ()), **dict.fromkeys(("shl", "shr"), (1,)),
    "bfe": (1, 2), "bfi": (2, 3), "prmt": (2,),
}  # fmt: skip
"""operations that only move bits -> the operands that control how; a bit of the result is undefined if the moved bit
is"""


def width(type_: str) -> int:
    """Return the number of bits of a register type."""
    return 1 if type_ == "p" else 8 * SIZE[type_]


def undefined_result(name: str, values: Sequence[int], masks: Masks, *, same: bool = False) -> int:
    """Return the undefined bits of an operation's result; `same`: both operands are the same register."""
    rule = _rule_of(name)
    if same and name.split(".")[0] in ("xor", "sub") and ".f" not in name:
        return 0
    return rule(values, masks, width(OPERATIONS[name].result))


def _all_bits(values: Sequence[int], masks: Masks, bits: int) -> int:
    return (1 << bits) - 1 if any(masks) else 0


def _move_rule(name: str, controls: tuple[int, ...]) -> Rule:
    """Return the rule of an operation that only moves bits: it moves the masks of undefined bits in the same way."""
    meaning = (lambda mask: mask) if name.startswith("not.") else semantics[name]

    def rule(values: Sequence[int], masks: Masks, bits: int) -> int:
        if any(masks[n] for n in controls):
            return _all_bits(values, masks, bits)
        return meaning(*(values[n] if n in controls else int(mask) for n, mask in enumerate(masks)))

    return rule


def _bits_from_lowest(mask: int, bits: int) -> int:
    """Return all bits from the lowest one of a mask on."""
    return -(mask & -mask) & (1 << bits) - 1


def _undefined_in_sum(values: Sequence[int], masks: Masks, bits: int) -> int:
    """Return the undefined bits of a sum: the undefined bits of the operands, and the bits that an uncertain carry may
    change."""
    (a, b), (of_a, of_b) = values, masks
    carries = (a & ~of_a) + (b & ~of_b) ^ (a | of_a) + (b | of_b)
    return (of_a | of_b | carries) & (1 << bits) - 1


def _undefined_in_difference(values: Sequence[int], masks: Masks, bits: int) -> int:
    """Return the undefined bits of a difference, by the same reasoning as for a sum."""
    (a, b), (of_a, of_b) = values, masks
    borrows = (a & ~of_a) - (b | of_b) ^ (a | of_a) - (b & ~of_b)
    return (of_a | of_b | borrows) & (1 << bits) - 1


def _undefined_in_negation(values: Sequence[int], masks: Masks, bits: int) -> int:
    return _undefined_in_difference((0, values[0]), (0, masks[0]), bits)


def _undefined_in_product(values: Sequence[int], masks: Masks, bits: int) -> int:
    """Return the undefined bits of a product, with or without an added operand."""
    (a, b), (of_a, of_b) = values[:2], masks[:2]
    rest = 0
    for one, other, by in ((of_a, of_b, b), (of_b, of_a, a)):
        may_be = other | by
        if one and may_be:  # the lowest undefined bit of one factor times the lowest bit of the other that may be set
            rest |= (one & -one) * (may_be & -may_be)
    return _bits_from_lowest(rest | (masks[2] if len(masks) > 2 else 0), bits)


def _high_of_product(values: Sequence[int], masks: Masks, bits: int) -> int:
    """Return all bits of the upper half of a product if any bit of the full product is undefined, else none."""
    return _all_bits(values, (_undefined_in_product(values, masks, 2 * bits),), bits)


def _and_rule(values: Sequence[int], masks: Masks, bits: int) -> int:
    (a, b), (of_a, of_b) = map(int, values), masks
    return of_a & of_b | of_a & b | of_b & a


def _or_rule(values: Sequence[int], masks: Masks, bits: int) -> int:
    (a, b), (of_a, of_b) = map(int, values), masks
    return of_a & of_b | of_a & ~b | of_b & ~a


def _differing(values: Sequence[int], masks: Masks, bits: int) -> int:
    return masks[0] | masks[1]


def _and_not(values: Sequence[int], masks: Masks, bits: int) -> int:
    return _and_rule((values[0], not values[1]), masks, bits)


def _undefined_in_selection(values: Sequence[int], masks: Masks, bits: int) -> int:
    if masks[2]:
        return masks[0] | masks[1] | int(values[0]) ^ int(values[1])
    return masks[0] if values[2] else masks[1]


def _comparison_rule(name: str) -> Rule:
    """Return the rule of an integer comparison: equality is defined if a defined bit differs, order if the ranges do
    not overlap."""
    _, how, type_ = name.split(".")
    bits, is_signed = int(type_[1:]), type_[0] == "s"
    if how in ("eq", "ne"):
        return lambda values, masks, _: int(
            (masks[0] | masks[1]) != 0 and not (values[0] ^ values[1]) & ~(masks[0] | masks[1])
        )

    def rule(values: Sequence[int], masks: Masks, _: int) -> int:
        (least, most), (low, high) = (
            value_range(value, mask, bits, is_signed=is_signed) for value, mask in zip(values, masks, strict=True)
        )
        if how in ("lt", "ge"):
            decided = most < low or least >= high
        else:
            decided = most <= low or least > high
        return int(not decided and any(masks))

    return rule


def value_range(value: int, mask: int, bits: int, *, is_signed: bool) -> tuple[int, int]:
    """Return the least and the greatest integer that a pattern with these undefined bits may be."""
    if not is_signed:
        return value & ~mask, value | mask
    sign = mask & 1 << bits - 1
    rest = mask ^ sign
    low, high = value & ~rest, value | rest
    return to_signed(low | sign, bits), to_signed(high & ~sign, bits)


def _extreme(name: str) -> Rule:
    """Return the rule of the minimum or maximum of two integers: the mask of one operand if ranges decide which is
    chosen."""
    what, type_ = name.split(".")
    bits, is_signed = int(type_[1:]), type_[0] == "s"

    def rule(values: Sequence[int], masks: Masks, _: int) -> int:
        (least, most), (low, high) = (
            value_range(value, mask, bits, is_signed=is_signed) for value, mask in zip(values, masks, strict=True)
        )
        if most <= low:
            return masks[0] if what == "min" else masks[1]
        if high <= least:
            return masks[1] if what == "min" else masks[0]
        return (1 << bits) - 1 if any(masks) else 0

    return rule


def _unless_nan(rule: Rule) -> Rule:
    """Return a rule for the sign of a float, extended to nans: if the value may be a nan, all its bits are
    undefined."""

    def guard_rule(values: Sequence[int], masks: Masks, bits: int) -> int:
        exponent = ((1 << bits - 1) - 1) & -(1 << _FRACTION[bits])
        may_be_nan = (values[0] | masks[0]) & exponent == exponent
        return _all_bits(values, masks, bits) if may_be_nan else rule(values, masks, bits)

    return guard_rule


_FRACTION = {16: 10, 32: 23, 64: 52}
"""bits of a float -> number of its fraction bits"""


def _with_sign(values: Sequence[int], masks: Masks, bits: int) -> int:
    sign = 1 << bits - 1
    return masks[0] & ~sign | masks[1] & sign


_BITWISE: dict[str, Rule] = {
    "and": _and_rule, "or": _or_rule, "xor": _differing, "andn": _and_not, "selp": _undefined_in_selection,
    "add": _undefined_in_sum, "sub": _undefined_in_difference, "neg": _undefined_in_negation, "mulhi": _high_of_product,
    **dict.fromkeys(("mul", "mad", "mulwide", "madwide"), _undefined_in_product),
}  # fmt: skip
_OF_FLOATS: dict[str, Rule] = {
    "neg": _unless_nan(lambda values, masks, bits: masks[0]),
    "abs": _unless_nan(lambda values, masks, bits: masks[0] & (1 << bits - 1) - 1),
    "copysign": _with_sign, "selp": _undefined_in_selection,
}  # fmt: skip


@functools.cache
def _rule_of(name: str) -> Rule:
    """Return the rule of an operation."""
    what, *rest = name.split(".")
    operands = OPERATIONS[name].operands
    if any(type_[0] == "f" for type_ in (*operands, OPERATIONS[name].result)):
        return _OF_FLOATS.get(what, _all_bits) if len(rest) == 1 else _all_bits
    if what in _MOVED or (what == "cvt" and len(rest) == 2):
        return _move_rule(name, _MOVED.get(what, ()))
    if what == "setp":
        return _comparison_rule(name)
    if what in ("min", "max"):
        return _extreme(name)
    return _BITWISE.get(what, _all_bits)
