"""Matrix operations of a warp in compiled code: multiplications, and moves of matrices between lanes.

PTX ISA, "mma", "wmma", "ldmatrix", "stmatrix", "movmatrix"; measured rules W1 to W9 of docs/semantics.md.
`model/matrix.py` defines sums of floats.  All lanes must execute the operation together.  Otherwise the operation is
reported, and only the lanes that execute it get a result.
"""

from __future__ import annotations

from wsemu.machine.lowering import compiled
from wsemu.machine.matrix.scaled import add_nibbles, scale_tile
from wsemu.machine.matrix.shapes import A_CLASS, A_SIGNIFICAND, B_CLASS, B_SIGNIFICAND, BEFORE, SPARSE_A, SUMS
from wsemu.machine.matrix.tiles import (
    ABSENT,
    ENDLESS,
    NAN,
    add_doubles,
    add_floats,
    add_integers,
    add_kept,
    keep_sums,
    load_sums,
    store_sums,
    take_doubles,
    take_floats,
    take_integers,
)
from wsemu.machine.records import call, instruction_at, machine_at, record_finding, shape_at, warp_at
from wsemu.machine.scalars import load_i64, load_u32, store_u32
from wsemu.machine.state import MULTIPLIES_DOUBLES, MULTIPLIES_FLOATS
from wsemu.machine.sync.clocks import MET, meet
from wsemu.machine.warp_operations import DIVERGENCE
from wsemu.model.isa import FIRST_MATRIX, LANES, ROW
from wsemu.model.matrix import COLLECT, FORMATS, MMA, MOVES, ROUNDS_ONCE, SATURATES, SELECTOR_SHIFT, SPREAD

FULL = (1 << LANES) - 1
HALF_BIAS = FORMATS["f16"].bias
"""exponent bias of f16; the subnormals of a format with this bias are also subnormals of f16"""
ALL_CHUNKS = 2
"""all chunks of a sparse `a`; 0: the even ones, 1: the odd ones"""
FIRST_MOVE = FIRST_MATRIX + len(MMA)
SPREADS = sum(what == SPREAD for what, _, _ in MOVES.values())
COLLECTS = sum(what == COLLECT for what, _, _ in MOVES.values())


def matrix_operation(address, w, pc, mask):
    """Execute the matrix operation at pc for the lanes of `mask`.  Called by address."""
    m = machine_at(address, 0)
    warp = warp_at(m.warps, w)
    i = instruction_at(m.code, pc)
    gather_lanes(m, warp, w, pc, mask)
    if i.op >= FIRST_MOVE:
        move(m, warp.registers, i, mask)
        return 0
    s = shape_at(m.matrix_shapes, i.op - FIRST_MATRIX)
    a, b = warp.registers + i.a, warp.registers + i.b
    if s.scaled == 4:
        load_sums(warp.registers + i.imm, m.matrix, s.halves, s.bytes)
        add_nibbles(m, a, b, i.aux)
        store_sums(warp.registers + i.d, m.matrix, s.halves, s.bytes, mask)
        return 0
    normal = s.byte and m.tensor_byte_bits == 0
    special = take_b(m, s, b, normal)
    if s.chunk:
        metadata, selector = a + ROW * (s.halves * s.groups >> 1), (i.aux >> SELECTOR_SHIFT) & 3
        special |= take_sparse_a(m, s, a, metadata, selector, ALL_CHUNKS, normal)
    else:
        special |= take_a(m, s, a, normal)
    if s.scaled:
        special |= scale_tile(m, a + ROW * s.halves * s.groups, b + ROW * s.groups, i.aux)
    load_sums(warp.registers + i.imm, m.matrix, s.halves, s.bytes)
    if s.what == MULTIPLIES_FLOATS and i.aux & ROUNDS_ONCE:
        call(m.exact_entry, m.address, i.op - FIRST_MATRIX, special & ENDLESS)
    elif s.chunk and normal:
        keep_sums(m.matrix, s.halves)
        for which in range(2):
            take_sparse_a(m, s, a, metadata, selector, which, normal)
            step(m, s, 0, s.groups, 0, s.parts, m.tensor_bits, s.bytes == 2, 23, special)
        add_kept(m.matrix, s.halves, s.bytes == 2)
    else:
        add_products(m, s, special, i.aux & SATURATES)
    store_sums(warp.registers + i.d, m.matrix, s.halves, s.bytes, mask)
    return 0


@compiled
def gather_lanes(m, warp, w, pc, mask):
    """Report the operation if lanes are missing.  Order the memory accesses of the lanes, as a shuffle does."""
    if mask != FULL:
        record_finding(m.report_entry, m.address, (DIVERGENCE, pc, w, mask, -1, -1), (-1, warp.alive, FULL, 0, 0))
    if m.clocks:
        met = mask | (FULL & ~warp.alive)  # include exited lanes: their earlier accesses are ordered too
        if m.trace:
            call(m.trace_entry, m.address, MET, w, load_i64(warp.clock + 8 * w), pc, met, -1)
        meet(m, w, met)


@compiled
def take_a(m, s, rows, normal):
    """Unpack the registers of `a`; return ENDLESS if some element is not finite, SMALL if some element is a subnormal
    f32.  `normal`: subnormal elements become normal numbers, because f16 can represent them."""
    return take_registers_of_a(m, s, rows, ROW, normal)


@compiled
def take_registers_of_a(m, s, rows, distance, normal):
    """Unpack registers that are `distance` bytes apart, as `take_a` does."""
    special = 0
    for r in range(s.halves * s.groups):
        row = rows + distance * r
        if s.what == MULTIPLIES_FLOATS:
            special |= take_floats(
                row,
                m.matrix,
                r * s.parts,
                s.parts,
                s.width,
                s.a_dropped,
                0,
                s.a_mantissa,
                s.a_exponents,
                s.a_bias,
                s.a_infinite,
                normal and s.a_bias != HALF_BIAS,
            )
        elif s.what == MULTIPLIES_DOUBLES:
            take_doubles(row, m.matrix, r, 0)
        else:
            take_integers(row, m.matrix, r * s.parts, s.parts, s.width, s.a_signed, 0)
    return special


@compiled
def stored_index(s, metadata, selector, half, g, k, which):
    """Return the number of the stored element of a sparse `a` in row g (half 0) or g + 8 with this k.  Return -1 if
    there is none, or if `which` does not select its chunk."""
    chunk = k // s.chunk
    if which != ALL_CHUNKS and chunk & 1 != which:
        return -1
    if s.width == 8:
        lane = half + (2 * selector if s.groups == 2 else 2 * (chunk >> 3))
        low = 4 * (chunk & 7)
    else:
        lane = (chunk >> 2) + (selector if s.groups * s.parts * 4 == 4 * s.chunk else 2 * selector)
        low = 4 * (chunk & 3) + 16 * half
    bits = load_u32(metadata + 4 * (4 * g + lane)) >> low
    if s.chunk == 2:
        return chunk if (bits >> 1) & 1 == k & 1 else -1
    if bits & 3 == k & 3:
        return 2 * chunk
    return 2 * chunk + 1 if (bits >> 2) & 3 == k & 3 else -1


@compiled
def take_sparse_a(m, s, rows, metadata, selector, which, normal):
    """Unpack the registers of a sparse `a` as those of a dense one; return 1 if some element is not finite."""
    to = m.matrix + SPARSE_A
    ones = ((1 << s.width) - 1) & 0xFFFFFFFF
    for r in range(s.halves * s.groups):
        for lane in range(LANES):
            word = 0
            g, half = lane >> 2, r & 1
            for x in range(s.parts):
                k = s.parts * (4 * (r >> 1) + (lane & 3)) + x
                at = stored_index(s, metadata, selector, half, g, k, which)
                if at >= 0:
                    block = at // s.parts
                    stored = load_u32(rows + ROW * (half + 2 * (block >> 2)) + 4 * (4 * g + (block & 3)))
                    word |= ((stored >> (s.width * (at % s.parts))) & ones) << (s.width * x)
            store_u32(to + 128 * r + 4 * lane, word)
    special = take_registers_of_a(m, s, to, 128, normal)
    if s.what == MULTIPLIES_FLOATS:
        for r in range(s.halves * s.groups):
            for lane in range(LANES):
                for x in range(s.parts):
                    k = s.parts * (4 * (r >> 1) + (lane & 3)) + x
                    if stored_index(s, metadata, selector, r & 1, lane >> 2, k, which) < 0:
                        store_u32(m.matrix + A_CLASS + 4 * ((r * s.parts + x) * LANES + lane), ABSENT)
    return special


@compiled
def take_b(m, s, rows, normal):
    return take_columns(m.matrix, s, rows, normal)


@compiled
def take_columns(to, s, rows, normal):
    """Unpack the registers of `b` into a buffer; return flags as `take_a` does."""
    special = 0
    for r in range(s.groups):
        row = rows + ROW * r
        if s.what == MULTIPLIES_FLOATS:
            special |= take_floats(
                row,
                to,
                r * s.parts,
                s.parts,
                s.width,
                s.b_dropped,
                1,
                s.b_mantissa,
                s.b_exponents,
                s.b_bias,
                s.b_infinite,
                normal and s.b_bias != HALF_BIAS,
            )
        elif s.what == MULTIPLIES_DOUBLES:
            take_doubles(row, to, r, 1)
        else:
            take_integers(row, to, r * s.parts, s.parts, s.width, s.b_signed, 1)
    return special


@compiled
def add_products(m, s, special, clamped):
    """Add the products of a tile to its accumulators as the architecture does."""
    half = s.bytes == 2
    together = 2 if s.chunk else 1  # registers of `b` for the k of a step
    if s.what == MULTIPLIES_DOUBLES:
        add_doubles(m.matrix, s.halves, s.groups)
    elif s.what != MULTIPLIES_FLOATS:
        add_integers(m.matrix, m.matrix, s.halves, s.parts, s.groups, s.what - 1, clamped)
    elif s.byte and m.tensor_byte_bits:
        for g in range(s.groups // together):
            first = together * g
            step(m, s, first, first + together, 0, s.parts, m.tensor_byte_bits, half, m.tensor_byte_bits, special)
    elif s.byte:
        keep_sums(m.matrix, s.halves)
        step(m, s, 0, s.groups, 0, 2, m.tensor_bits, half, 23, special)
        step(m, s, 0, s.groups, 2, 4, m.tensor_bits, half, 23, special)
        add_kept(m.matrix, s.halves, half)
    elif m.tensor_halves:
        for g in range(s.groups // together):
            first = together * g
            step(m, s, first, first + together, 0, s.parts, m.tensor_bits, half, 23, special)
    else:
        step(m, s, 0, s.groups, 0, s.parts, m.tensor_bits, half, 23, special)


@compiled
def step(m, s, group, groups, part, parts, bits, half, fraction, special):
    """Add the products of some groups and parts to the sums, with one rounding."""
    add_step(m, m.matrix, s, group, groups, part, parts, bits, half, fraction, special)


@compiled
def add_step(m, columns, s, group, groups, part, parts, bits, half, fraction, special):
    """Add products, as `step` does, with `b` in the buffer at `columns`.  `special` has the flags of the operands."""
    up = bits - s.a_mantissa - s.b_mantissa
    plain = special == 0 and half == 0 and fraction == 23
    endless = special & ENDLESS
    endless |= add_floats(
        m.matrix, columns, s.halves, s.parts, group, groups, part, parts, up, bits, half, fraction, plain
    )
    if endless:
        for i in range(8 * s.halves):
            for q in range(8):
                mend(m, columns, s, group, groups, part, parts, half, i, q)


@compiled
def mend(m, columns, s, group, groups, part, parts, half, i, q):
    """Overwrite a sum that has an infinity or a nan among its terms: the result is an infinity or a nan.  `columns` is
    the address of the buffer with `b`."""
    to = m.matrix
    place = 4 * (8 * i + q)
    before = load_u32(to + BEFORE + place)
    endless = 0x7C00 if half else 0x7F800000
    sign = 0x8000 if half else 0x80000000
    nan = before & (sign - 1) > endless
    infinite = 0  # bit 0: a positive term, bit 1: a negative one
    if before & (sign - 1) == endless:
        infinite = 2 if before & sign else 1
    for g in range(group, groups):
        for x in range(part, parts):
            for t in range(4):
                a = 4 * ((((i >> 3) + s.halves * g) * s.parts + x) * LANES + 4 * (i & 7) + t)
                b = 4 * (((g * s.parts + x) * 4 + t) * 8 + q)
                of_a, of_b = load_u32(to + A_CLASS + a), load_u32(columns + B_CLASS + b)
                if of_a != ABSENT and of_a | of_b:
                    first, second = load_u32(to + A_SIGNIFICAND + a), load_u32(columns + B_SIGNIFICAND + b)
                    if of_a == NAN or of_b == NAN or first == 0 or second == 0:
                        nan = 1
                    else:
                        infinite |= 2 if (first ^ second) >> 31 else 1
    if nan or infinite == 3:
        store_u32(to + SUMS + place, sign - 1)
    elif infinite:
        store_u32(to + SUMS + place, endless | (sign if infinite == 2 else 0))


# -- moves -------------------------------------------------------------------------------------------------------------


@compiled
def load_held(to, r, lane):
    """Load the old contents of a lane's register."""
    return load_u32(to + 128 * r + 4 * lane)


@compiled
def move(m, registers, i, mask):
    """Move 8 x 8 matrices of 16-bit elements between lanes: from rows to fragments, from fragments to rows, or from a
    fragment to its transpose."""
    at = i.op - FIRST_MOVE
    spreads = at < SPREADS
    collects = at >= SPREADS and at < SPREADS + COLLECTS
    at -= 0 if spreads else SPREADS
    n = 1 << (at >> 1) if spreads or collects else 1
    turned = at & 1 if spreads or collects else 1
    sources = 4 if spreads else n
    results = 4 if collects else n
    for r in range(sources):
        for lane in range(LANES):
            store_u32(m.matrix + 128 * r + 4 * lane, load_u32(registers + i.a + ROW * r + 4 * lane))
    for r in range(results):
        for lane in range(LANES):
            if (mask >> lane) & 1:
                g, t = lane >> 2, lane & 3
                if spreads:
                    value = spread(m.matrix, r, g, t, turned)
                elif collects:
                    value = collect(m.matrix, r, lane, n, turned)
                else:
                    low = load_held(m.matrix, 0, 8 * t + (g >> 1)) >> (16 * (g & 1))
                    high = load_held(m.matrix, 0, 8 * t + 4 + (g >> 1)) >> (16 * (g & 1))
                    value = (low & 0xFFFF) | (high & 0xFFFF) << 16
                store_u32(registers + i.d + ROW * r + 4 * lane, value)


@compiled
def spread(to, r, g, t, turned):
    """Return the fragment word of lane (g, t): two elements of row g of matrix r, or of column g if `turned`."""
    if not turned:
        return load_held(to, t, 8 * r + g)
    low = load_held(to, g >> 1, 8 * r + 2 * t) >> (16 * (g & 1))
    high = load_held(to, g >> 1, 8 * r + 2 * t + 1) >> (16 * (g & 1))
    return (low & 0xFFFF) | (high & 0xFFFF) << 16


@compiled
def collect(to, word, lane, n, turned):
    """Return one word of the matrix row that a lane holds, collected from fragments; 0 if the matrix does not exist."""
    r, row = lane >> 3, lane & 7
    if r >= n:
        return 0
    if not turned:
        return load_held(to, r, 4 * row + word)
    low = load_held(to, r, 8 * word + (row >> 1)) >> (16 * (row & 1))
    high = load_held(to, r, 8 * word + 4 + (row >> 1)) >> (16 * (row & 1))
    return (low & 0xFFFF) | (high & 0xFFFF) << 16
