"""Scale factors of `mma.sync` in compiled code, and sums of 4-bit elements with them.

PTX ISA, "Block scaling for mma.sync".  A word has the factors of a row of `a` or a column of `b`; `aux` names the lane
of four that has it, and its first byte.  The sums follow the published model (arXiv 2511.10909).
"""

from __future__ import annotations

from wsemu.machine.lowering import compiled
from wsemu.machine.matrix.shapes import (
    A_CLASS,
    A_EXPONENT,
    B_CLASS,
    B_EXPONENT,
    NUMBERS,
    SUMS,
)
from wsemu.machine.matrix.tensor_scales import (
    FLOOR,
    QUIET,
    enter_group,
    is_nan,
    nibble,
    sum_groups,
)
from wsemu.machine.matrix.tiles import ENDLESS, NAN, SMALL
from wsemu.machine.scalars import load_u32, store_i64, store_u32
from wsemu.model.isa import LANES, ROW
from wsemu.model.matrix import BYTE_A_SHIFT, BYTE_B_SHIFT, FACTORS_SHIFT, FINE, LANE_A_SHIFT, LANE_B_SHIFT

TERMS = NUMBERS + 1024


@compiled
def factor_of_row(row, aux, i, j):
    """Return the j-th factor of row i of `a`; `row` is the address of the register with the factors."""
    lane = 4 * (i & 7) + 2 * ((aux >> LANE_A_SHIFT) & 1) + (i >> 3)
    return (load_u32(row + 4 * lane) >> (8 * (((aux >> BYTE_A_SHIFT) & 3) + j))) & 0xFF


@compiled
def factor_of_column(row, aux, i, j):
    lane = 4 * i + ((aux >> LANE_B_SHIFT) & 3)
    return (load_u32(row + 4 * lane) >> (8 * (((aux >> BYTE_B_SHIFT) & 3) + j))) & 0xFF


@compiled
def column_slot(j):
    """Return the position of column j in a vector of 8 columns."""
    return (j >> 1) + 4 * (j & 1)


@compiled
def scale_line(to, exponents, classes, of_b, i, bits):
    """Add the exponent of a factor to the elements of row i of `a`, or of column i of `b`; return flags as `take_a`
    does."""
    for k in range(32):
        block, t = k >> 2, k & 3
        if of_b:
            at = 4 * ((block * 4 + t) * 8 + column_slot(i))
        else:
            at = 4 * ((((i >> 3) + 2 * (block >> 2)) * 4 + (block & 3)) * LANES + 4 * (i & 7) + t)
        store_u32(to + exponents + at, load_u32(to + exponents + at) + bits - 127)
        if bits == 0xFF:
            store_u32(to + classes + at, NAN)
    return SMALL | (ENDLESS if bits == 0xFF else 0)


@compiled
def scale_tile(m, a, b, aux):
    """Scale the elements in the buffer by factors in registers; return flags as `take_a` does."""
    special = 0
    for i in range(16):
        special |= scale_line(m.matrix, A_EXPONENT, A_CLASS, 0, i, factor_of_row(a, aux, i, 0))
    for i in range(8):
        special |= scale_line(m.matrix, B_EXPONENT, B_CLASS, 1, i, factor_of_column(b, aux, i, 0))
    return special


@compiled
def take_line(to, rows, first, distance, lane):
    """Unpack 64 elements of 4 bits: those of four lanes in two registers."""
    for k in range(64):
        word = load_u32(rows + ROW * (first + distance * (k >> 5)) + 4 * (lane + ((k >> 3) & 3)))
        store_i64(to + 8 * k, nibble((word >> (4 * (k & 7))) & 15))


@compiled
def add_nibbles(m, a, b, aux):
    """Add the products of a tile of 4-bit elements with factors to its accumulators."""
    to = m.matrix + NUMBERS
    for i in range(16):
        take_line(to, a, i >> 3, 2, 4 * (i & 7))
        for j in range(8):
            take_line(to + 512, b, 0, 1, 4 * j)
            place = m.matrix + SUMS + 4 * (8 * i + column_slot(j))
            store_u32(place, add_element(m, a + 4 * ROW, b + 2 * ROW, aux, i, j, load_u32(place)))


@compiled
def add_element(m, factors_a, factors_b, aux, i, j, bits):
    """Return an accumulator and its products."""
    a, b, terms = m.matrix + NUMBERS, m.matrix + NUMBERS + 512, m.matrix + TERMS
    count, fine, top = 1 << ((aux >> FACTORS_SHIFT) & 3), aux & FINE, FLOOR
    for g in range(4):
        of_a = factor_of_row(factors_a, aux, i, g * count // 4)
        of_b = factor_of_column(factors_b, aux, j, g * count // 4)
        if is_nan(of_a, fine) or is_nan(of_b, fine):
            return QUIET
        top = enter_group(terms, g, a, b, of_a, of_b, fine, top)
    return sum_groups(terms, bits, top)
