"""Positions of a tile's operands in a machine's buffer, and the multiplications in the format of the compiled code."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.machine.state import (
    COUNTS_AND,
    COUNTS_XOR,
    MULTIPLIES_DOUBLES,
    MULTIPLIES_FLOATS,
    MULTIPLIES_INTEGERS,
    SHAPE,
)
from wsemu.model.isa import LANES
from wsemu.model.matrix import BYTE_FLOATS, FORMATS, MMA, WGMMA, Mma

if TYPE_CHECKING:
    import numpy.typing as npt

NUMBERS_ALONE = 2
"""value of `infinite` for a type without infinities and nans"""
COLUMNS = (0, 2, 4, 6, 1, 3, 5, 7)
N = len(COLUMNS)
_MOST_A, _MOST_B = 4 * 8 * LANES, 2 * 8 * 4 * N
"""number of elements of the largest operands, which are those of 4 bits"""
A_SIGNIFICAND, A_EXPONENT, A_CLASS, A_VALUE = (4 * _MOST_A * n for n in range(4))
B_SIGNIFICAND, B_EXPONENT, B_CLASS, B_VALUE = (16 * _MOST_A + 4 * _MOST_B * n for n in range(4))
SIZE_B = 16 * _MOST_B
"""size of all parts of `b`, in bytes"""
SUMS = B_SIGNIFICAND + SIZE_B
"""offset of 16 rows of 8 accumulators, of 4 bytes each (f64: 8)"""
BEFORE = SUMS + 16 * N * 8
"""offset of the accumulators before the last step"""
KEPT = BEFORE + 16 * N * 4
"""offset of accumulators that are added last"""
RAW = KEPT + 16 * N * 4
"""offset of the registers of `a`, and of `b` from RAW + 1024 on, if they were read from shared memory"""
LIMBS = RAW + 2048
"""offset of a fixed-point number, for sums that are rounded once"""
SPARSE_A = LIMBS + 256
"""offset of the registers of a sparse `a`, with zeros where it has no elements"""
METADATA = SPARSE_A + 1024
"""offset of the metadata of a sparse `a` in shared memory, which 64-bit registers hold"""
NUMBERS = METADATA + 4 * LANES
"""64 elements of a row of `a` and of a column of `b`, of 64 bits, and sums of 16 of their products with exponents"""
TURNED = NUMBERS + 1024 + 64
"""up to 32 columns of 16 elements of `a`, as f32"""
BUFFER = TURNED + 32 * 16 * 4
"""size of the buffer, in bytes"""


def _what(shape: Mma) -> int:
    if shape.a == "f64":
        return MULTIPLIES_DOUBLES
    if shape.a in FORMATS:
        return MULTIPLIES_FLOATS
    return {"mul": MULTIPLIES_INTEGERS, "xor": COUNTS_XOR, "and": COUNTS_AND}[shape.combine]


@functools.cache
def shapes() -> npt.NDArray[Any]:
    """Return a SHAPE for each multiplication, in the order of their operations, mma before wgmma."""
    parts = [*MMA.values(), *(found.part for found in WGMMA.values())]
    table = np.zeros(len(parts), SHAPE)
    for row, shape in zip(table, parts, strict=True):
        row["what"], row["bytes"] = _what(shape), {"f16": 2, "f64": 8}.get(shape.c, 4)
        row["byte"] = shape.a in BYTE_FLOATS and not shape.kind
        row["scaled"] = shape.width if shape.has_factors else 0
        row["chunk"] = shape.chunk if shape.sparse else 0
        for name in ("halves", "groups", "parts", "width"):
            row[name] = getattr(shape, name)
        for operand, type_ in (("a", shape.a), ("b", shape.b)):
            row[f"{operand}_signed"] = type_[0] == "s"
            found = FORMATS.get(type_)
            if found:
                for name in ("mantissa", "bias", "dropped", "infinite"):
                    row[f"{operand}_{name}"] = getattr(found, name)
                row[f"{operand}_exponents"] = (1 << found.exponent) - 1
    return table
