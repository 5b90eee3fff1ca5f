"""Scale factors of `tcgen05.mma` in compiled code, and sums of 4-bit elements with them.

PTX ISA, "Scale factor layouts in tensor memory"; the sums follow the published model (arXiv 2511.10909).  The products
of each 16 elements of k are added exactly and multiplied by the significands of both factors.  These terms and the
accumulator are cut toward zero 35 bits after the largest exponent, added, and cut to an f32.
"""

from __future__ import annotations

from wsemu.machine.lowering import compiled
from wsemu.machine.matrix.tensor_operands import (
    HALVES,
    column_distance,
    row_lane,
    shared_word,
    tensor_word,
    word_index,
)
from wsemu.machine.matrix.tensor_shapes import COLUMNS_WRITTEN, FACTORS, ROWS_WRITTEN
from wsemu.machine.matrix.tensor_sparse import choose_elements
from wsemu.machine.matrix.tiles import NAN
from wsemu.machine.scalars import load_i64, load_u8, load_u32, store_i64, store_u8, store_u32
from wsemu.model.isa import LANES

CHOSEN, KEPT, BEFORE, TERMS = (FACTORS + offset for offset in (1536, 2048, 2560, 2624))
"""offsets, after 64 elements of a and 128 of b: the k of the elements of a sparse row, the elements of b with these k,
a sum, and terms"""
QUIET = 0x7FFFFFFF
FRACTION, FLOOR = 35, -139


@compiled
def factor_index(p, member, row, of_b):
    """Return the index of the first copy of the word of a row's factors."""
    base, lane = p.scale_b if of_b else p.scale_a, 0
    if of_b and p.layout == HALVES:
        lane = 64 * (row >= p.n >> 1)
        row %= p.n >> 1
    return word_index(member, lane + (row & 31), base + (row >> 5))


@compiled
def factor(m, p, member, row, of_b, j):
    """Return the j-th factor of a row of a, or of a column of b."""
    first = p.id_b if of_b else p.id_a
    word = load_u32(m.columns + 4 * factor_index(p, member, row, of_b))
    return (word >> (8 * (first + j))) & 0xFF


@compiled
def has_factors(m, p, member, row, of_b):
    """Return whether a row's factors are initialized, and equal, in each quarter of lanes that has a copy of them."""
    at, good = factor_index(p, member, row, of_b), 1
    used = ((1 << (8 << p.vector)) - 1) << 8 * (p.id_b if of_b else p.id_a)
    word = load_u32(m.columns + 4 * at)
    for q in range(2 if of_b and p.layout == HALVES else 4):
        good &= load_u8(m.columns_written + at + 32 * q)
        good &= ((load_u32(m.columns + 4 * (at + 32 * q)) ^ word) & used) == 0
    return good


@compiled
def scale_operands(m, p, member, first, of_b, exponents, classes):
    """Add the exponents of factors to those of 16 rows of a, or 8 columns of b, at the addresses `exponents` and
    `classes`; return 1 if some factor is a nan."""
    special = 0
    written = m.columns_scratch + (COLUMNS_WRITTEN if of_b else ROWS_WRITTEN)
    for i in range(8 if of_b else 16):
        row = first + i
        if not has_factors(m, p, member, row, of_b):
            store_u8(written + row, 0)
        bits = factor(m, p, member, row, of_b, 0)
        for k in range(32 << p.sparse):
            group, x, t = k >> 4, (k >> 2) & 3, k & 3
            if of_b:
                slot = i >> 1 if i & 1 == 0 else 4 + (i >> 1)
                at = 4 * (((group * 4 + x) * 4 + t) * 8 + slot)
            else:
                at = 4 * ((((i >> 3) + 2 * group) * 4 + x) * LANES + 4 * (i & 7) + t)
            store_u32(exponents + at, load_u32(exponents + at) + bits - 127)
            if bits == 0xFF:
                store_u32(classes + at, NAN)
        special |= bits == 0xFF
    return special


@compiled
def nibble(bits):
    """Return an e2m1 number, with its sign, in units of one half."""
    exponent, low = (bits >> 1) & 3, bits & 1
    size = low if exponent == 0 else (2 + low) << (exponent - 1)
    return -size if bits & 8 else size


@compiled
def factor_significand(bits, fine):
    """Return the significand of a factor: in eighths for ue4m3, 1 for ue8m0."""
    if not fine:
        return 8
    return (bits & 7) | (8 if (bits >> 3) & 15 else 0)


@compiled
def factor_exponent(bits, fine):
    if not fine:
        return bits - 127
    field = (bits >> 3) & 15
    return (field if field else 1) - 7


@compiled
def is_nan(bits, fine):
    return bits & 0x7F == 0x7F if fine else bits == 0xFF


@compiled
def packed_word(m, p, member, of_b, row, q):
    """Return 8 elements of k: the q-th word of a row's 32 bytes."""
    if of_b:
        part = p.n >> p.pair
        first = member & ~1 if p.pair else member
        return shared_word(m, first + row // part, p.b, 0, 1, 0, row % part, q >> 2, q & 3)
    if p.in_columns:
        return tensor_word(m, p, member, row, 0, q >> 2, q & 3)
    return shared_word(m, member, p.a, 0, 1, 0, row, q >> 2, q & 3)


@compiled
def take_row(m, p, member, row, of_b, to):
    """Store the elements of a row of a, or of a column of b, as numbers of 64 bits."""
    flip = p.flip_b if of_b else p.flip_a
    for q in range(8 << (of_b and p.sparse)):
        word = packed_word(m, p, member, of_b, row, q)
        for j in range(8):
            number = nibble((word >> (4 * j)) & 15)
            store_i64(to + 8 * (8 * q + j), -number if flip else number)


@compiled
def shift_toward_zero(value, up):
    """Shift a number up, or down and cut it toward zero."""
    if up >= 0:
        return value << min(up, 62)
    down = min(-up, 63)
    return value >> down if value >= 0 else -((-value) >> down)


@compiled
def encode(total, unit):
    """Return total * 2 ** unit as an f32, cut toward zero."""
    if total == 0:
        return 0
    size = total if total > 0 else -total
    top = 0
    while (size >> top) > 1:
        top += 1
    exponent = max(top + unit, -126)
    down = exponent - 23 - unit
    number = size >> min(down, 63) if down >= 0 else size << -down
    bits = min(((exponent + 126) << 23) + number, 0x7F800000)
    if number == 0:
        return 0
    return bits | (0x80000000 if total < 0 else 0)


@compiled
def enter_group(terms, g, a, b, of_a, of_b, fine, top):
    """Store the scaled sum of 16 products, and its exponent, as term g; return the highest exponent so far."""
    total, some = 0, 0
    for k in range(16 * g, 16 * g + 16):
        product = load_i64(a + 8 * k) * load_i64(b + 8 * k)
        total += product
        some |= product
    scale = factor_significand(of_a, fine) * factor_significand(of_b, fine)
    exponent = factor_exponent(of_a, fine) + factor_exponent(of_b, fine)
    store_i64(terms + 16 * g, total * scale)
    store_i64(terms + 16 * g + 8, exponent)
    if some != 0 and scale != 0:  # the sum may be 0
        return max(top, exponent)
    return top


@compiled
def sum_groups(terms, bits, top):
    """Return the sum of an accumulator and the four terms, of which `top` is the highest exponent."""
    field, size = (bits >> 23) & 0xFF, bits & 0x7FFFFF
    if field == 0xFF:
        return QUIET if size else bits
    exponent = (field if field else 1) - 127
    size |= 0x800000 if field else 0
    if size:
        top = max(top, exponent)
    total = shift_toward_zero(-size if bits >> 31 else size, exponent - 23 - top + FRACTION)
    for g in range(4):
        total += shift_toward_zero(load_i64(terms + 16 * g), load_i64(terms + 16 * g + 8) - 8 - top + FRACTION)
    return encode(total, top - FRACTION)


@compiled
def add_element(m, p, member, a, b, row, column, before):
    """Add the products of one element of D."""
    groups, terms, top = 1 << p.vector, m.columns_scratch + TERMS, FLOOR
    for g in range(4):
        of_a = factor(m, p, member, row, 0, g * groups // 4)
        of_b = factor(m, p, member, column, 1, g * groups // 4)
        if is_nan(of_a, p.fine) or is_nan(of_b, p.fine):
            return QUIET
        top = enter_group(terms, g, a, b, of_a, of_b, p.fine, top)
    return sum_groups(terms, load_u32(before), top)


@compiled
def keep_chosen(b, chosen, to):
    """Copy the 64 elements of a column of b that a sparse row multiplies."""
    for k in range(64):
        store_i64(to + 8 * k, load_i64(b + 8 * load_i64(chosen + 8 * k)))


@compiled
def add_scaled(m, p, member):
    """Compute the rows of a product of 4-bit elements with factors in one CTA."""
    a, b = m.columns_scratch + FACTORS, m.columns_scratch + FACTORS + 512
    chosen, before = m.columns_scratch + CHOSEN, m.columns_scratch + BEFORE
    kept = m.columns_scratch + KEPT if p.sparse else b
    for row in range(p.rows):
        take_row(m, p, member, row, 0, a)
        if p.sparse:
            choose_elements(m, p, member, row, chosen)
        good = load_u8(m.columns_scratch + ROWS_WRITTEN + row) & has_factors(m, p, member, row, 0)
        for column in range(p.n):
            lane = row_lane(p, row, column)
            if p.masked and (p.left_out[4 * (member & p.pair) + (lane >> 5)] >> (lane & 31)) & 1:
                continue
            take_row(m, p, member, column, 1, b)
            if p.sparse:
                keep_chosen(b, chosen, kept)
            at = word_index(member, lane, p.column + column_distance(p, column))
            known = good & load_u8(m.columns_scratch + COLUMNS_WRITTEN + column)
            known &= has_factors(m, p, member, column, 1)
            store_u32(before, 0)
            if p.adds:
                store_u32(before, load_u32(m.columns + 4 * at))
                known &= load_u8(m.columns_written + at)
            store_u32(m.columns + 4 * at, add_element(m, p, member, a, kept, row, column, before))
            store_u8(m.columns_written + at, known)
