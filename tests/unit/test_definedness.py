"""Undefined bits of results, against all values of the undefined bits of operands."""

from __future__ import annotations

import itertools
import random
from typing import TYPE_CHECKING

import pytest

from wsemu.model.isa import OPERATIONS
from wsemu.reference.arithmetic import semantics
from wsemu.reference.definedness import undefined_result, value_range, width

if TYPE_CHECKING:
    from collections.abc import Iterator

EXACT = """mov not neg add sub and or xor selp shl shr bfe bfi brev prmt cvt copysign andn""".split()
"""operations whose undefined bits are found exactly, if what says where bits go is defined"""
INEXACT = ("add.f32", "cvt.f32.f16", "neg.f32", "neg.f64")
CONTROLS = {"shl": (1,), "shr": (1,), "bfe": (1, 2), "bfi": (2, 3), "prmt": (2,)}
INTEGER = [
    name
    for name, operation in OPERATIONS.items()
    if operation.kind == "alu"
    and not name.startswith(("index.", "varying."))
    and not any(type_[:1] == "f" for type_ in (operation.result, *operation.operands))
]
BITWISE_FLOATS = ["neg.f32", "abs.f32", "copysign.f32", "selp.f32", "neg.f64", "add.f32", "setp.lt.f32", "cvt.f32.f16"]
MAX_BITS = 6
"""undefined bits of all operands together"""


def choices(value: int, mask: int) -> Iterator[int]:
    """All values that a pattern may have."""
    bits = [1 << n for n in range(64) if mask >> n & 1]
    for chosen in itertools.product((0, 1), repeat=len(bits)):
        yield value & ~mask | sum(bit for bit, is_set in zip(bits, chosen, strict=True) if is_set)


def operands(name: str, draw: random.Random) -> tuple[list[int], list[int]]:
    """Values of the operands of an operation, and masks of a few undefined bits."""
    types = OPERATIONS[name].operands
    values, masks, left = [], [0] * len(types), draw.randrange(1, MAX_BITS)
    for n, type_ in enumerate(types):
        bits = width(type_)
        small = n in CONTROLS.get(name.split(".")[0], ())
        values.append(draw.choice((draw.getrandbits(bits), draw.getrandbits(min(bits, 5)), 0, (1 << bits) - 1)))
        values[-1] = draw.randrange(bits + 1) if small and name[:4] != "prmt" else values[-1]
    while left:
        n = draw.randrange(len(types))
        masks[n] |= 1 << draw.randrange(width(types[n]))
        left -= 1
    return values, masks


@pytest.mark.parametrize("name", INTEGER + BITWISE_FLOATS)
def test_undefined_bits_are_those_that_differ(name: str) -> None:
    draw = random.Random(name)
    operation, meaning = OPERATIONS[name], semantics[name]
    what = name.split(".")[0]
    for _ in range(40):
        values, masks = operands(name, draw)
        typed = [
            [bool(v) for v in choices(value, mask)] if type_ == "p" else [*choices(value, mask)]
            for value, mask, type_ in zip(values, masks, operation.operands, strict=True)
        ]
        results = [int(meaning(*given)) for given in itertools.product(*typed)]
        differing = 0
        for result in results:
            differing |= result ^ results[0]
        found = undefined_result(name, [options[0] for options in typed], masks)
        assert not differing & ~found, f"{values} with {masks} undefined: {differing:#x} differ, {found:#x} are found"
        controls = any(masks[n] for n in CONTROLS.get(what, ()))
        if what in EXACT and name not in INEXACT and not controls:
            assert found == differing, f"{values} with {masks} undefined"
        if what == "setp" and name != "setp.lt.f32":
            assert found == differing, f"{values} with {masks} undefined"


def test_what_is_combined_with_itself():
    assert undefined_result("xor.b32", (5, 5), (7, 7)) == 7
    assert undefined_result("xor.b32", (5, 5), (7, 7), same=True) == 0
    assert undefined_result("sub.b32", (5, 5), (7, 7), same=True) == 0
    assert undefined_result("sub.f32", (5, 5), (7, 7), same=True) == 0xFFFFFFFF


def test_ranges():
    assert value_range(0b1010, 0b0110, 8, is_signed=False) == (0b1000, 0b1110)
    assert value_range(0x80, 0x81, 8, is_signed=True) == (-128, 1)
    assert value_range(0x03, 0x01, 8, is_signed=True) == (2, 3)
