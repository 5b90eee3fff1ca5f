"""Correctly rounded sums of a tile, in compiled code.

All products and the accumulator are added in a fixed-point number that can hold any of them, which is then rounded
once, to nearest even.
"""

from __future__ import annotations

from wsemu.machine.lowering import compiled
from wsemu.machine.matrix.multiply import mend
from wsemu.machine.matrix.shapes import (
    A_EXPONENT,
    A_SIGNIFICAND,
    B_EXPONENT,
    B_SIGNIFICAND,
    BEFORE,
    LIMBS,
    SUMS,
)
from wsemu.machine.records import machine_at, shape_at
from wsemu.machine.scalars import load_i64, load_u32, store_i64, store_u32
from wsemu.model.isa import LANES

COUNT = 20
"""number of 32-bit words of the fixed-point number; each is stored in 64 bits"""
LEAST = -300
"""exponent of its lowest bit, which is below that of every product"""
WORD = (1 << 32) - 1


def add_exactly(address, number, special):
    """Add the products of a tile to its accumulators; `number` is the number of its shape. Called by address."""
    m = machine_at(address, 0)
    s = shape_at(m.matrix_shapes, number)
    half = s.bytes == 2
    for i in range(8 * s.halves):
        for q in range(8):
            place = m.matrix + 4 * (8 * i + q)
            before = load_u32(place + SUMS)
            store_u32(place + BEFORE, before)
            special |= begin(m.matrix + LIMBS, before, half)
            add_terms(m, s, i, q)
            store_u32(place + SUMS, round_limbs(m.matrix + LIMBS, half))
    if special:
        for i in range(8 * s.halves):
            for q in range(8):
                mend(m, m.matrix, s, 0, s.groups, 0, s.parts, half, i, q)
    return 0


@compiled
def begin(limbs, bits, half):
    """Set the fixed-point number to the accumulator; return 1 if that is not finite."""
    for n in range(COUNT):
        store_i64(limbs + 8 * n, 0)
    fraction = 10 if half else 23
    ones = 31 if half else 255
    bias = 15 if half else 127
    sign = (bits >> (fraction + (5 if half else 8))) & 1
    field = (bits >> fraction) & ones
    low = bits & ((1 << fraction) - 1)
    if field == ones:
        return 1
    size = low
    exponent = 1
    if field:
        size = low | 1 << fraction
        exponent = field
    add(limbs, -size if sign else size, exponent - bias - fraction)
    return 0


@compiled
def add(limbs, value, exponent):
    """Add value * 2 ** exponent to the number; words may then be negative, or exceed 32 bits."""
    if value == 0:
        return 0
    at = exponent - LEAST
    size = -value if value < 0 else value
    wide = size << (at & 31)
    low, high = wide & WORD, wide >> 32
    if value < 0:
        low = -low
        high = -high
    place = limbs + 8 * (at >> 5)
    store_i64(place, load_i64(place) + low)
    store_i64(place + 8, load_i64(place + 8) + high)
    return 0


@compiled
def add_terms(m, s, i, q):
    """Add the products of one element."""
    to = m.matrix
    for g in range(s.groups):
        for x in range(s.parts):
            for t in range(4):
                a = 4 * ((((i >> 3) + s.halves * g) * s.parts + x) * LANES + 4 * (i & 7) + t)
                b = 4 * (((g * s.parts + x) * 4 + t) * 8 + q)
                value = wide(load_u32(to + A_SIGNIFICAND + a)) * wide(load_u32(to + B_SIGNIFICAND + b))
                exponent = wide(load_u32(to + A_EXPONENT + a)) + wide(load_u32(to + B_EXPONENT + b))
                add(to + LIMBS, value, exponent - s.a_mantissa - s.b_mantissa)


@compiled
def wide(word):
    """Sign-extend a number of 32 bits."""
    return word - ((word >> 31) << 32)


@compiled
def carry_limbs(limbs):
    """Carry between words so that each has 32 bits, and return the rest, which has the sign of the number."""
    rest = 0
    for n in range(COUNT):
        value = load_i64(limbs + 8 * n) + rest
        store_i64(limbs + 8 * n, value & WORD)
        rest = value >> 32
    return rest


@compiled
def round_limbs(limbs, half):
    """Return the bits of the number, rounded to f32 or f16; +0 if it is zero."""
    negative = carry_limbs(limbs) < 0
    if negative:
        for n in range(COUNT):
            store_i64(limbs + 8 * n, -load_i64(limbs + 8 * n))
        carry_limbs(limbs)
    top = COUNT - 1
    while top >= 0 and load_i64(limbs + 8 * top) == 0:
        top -= 1
    if top < 0:
        return 0
    lead = 0
    while load_i64(limbs + 8 * top) >> (lead + 1):
        lead += 1
    fraction = 10 if half else 23
    bias = 15 if half else 127
    endless = 0x7C00 if half else 0x7F800000
    exponent = 32 * top + lead + LEAST
    least = 1 - bias
    held = exponent if exponent > least else least
    cut = held - fraction - LEAST
    number = field(limbs, cut) & ((2 << fraction) - 1)
    if field(limbs, cut - 1) & 1 and (number & 1 or below(limbs, cut - 1)):
        number += 1
    result = ((held + bias - 1) << fraction) + number
    if result > endless:
        result = endless
    if negative and result:
        result |= 0x8000 if half else 0x80000000
    return result


@compiled
def field(limbs, at):
    """Return the bits of the number from one bit on, at least 25 of them."""
    place = limbs + 8 * (at >> 5)
    return (load_i64(place) | (load_i64(place + 8) & 0x1FFFFFF) << 32) >> (at & 31)


@compiled
def below(limbs, at):
    """Return whether some bit below this one is set."""
    found = load_i64(limbs + 8 * (at >> 5)) & ((1 << (at & 31)) - 1)
    for n in range(at >> 5):
        found |= load_i64(limbs + 8 * n)
    return found
