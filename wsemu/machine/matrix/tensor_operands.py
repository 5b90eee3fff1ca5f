"""Operands of `tcgen05.mma` and `tcgen05.cp` in compiled code: the locations of their elements, and reads of shared
memory.

PTX ISA, "Shared memory matrix layout", "Matrix descriptor", "Data Path Layout Organization"; the swizzles are those of
`wgmma` (measured rule W12).
"""

from __future__ import annotations

from wsemu.machine.agents.ranges import host_place, prepare, touch_range
from wsemu.machine.lowering import compiled
from wsemu.machine.memory.window import is_in_window
from wsemu.machine.records import segment_at
from wsemu.machine.scalars import load_i64, load_u8, load_u32, store_u8, store_u32
from wsemu.machine.sync.peers import reach
from wsemu.model.isa import IN_PIECES, READ, SEGMENT_SHIFT, SHARED
from wsemu.model.tensor_memory import ROWS

PIECE = 16
"""bytes of one contiguous piece of an operand"""
LINE = 128
"""bytes within which a swizzle moves pieces"""
WRITTEN = 0x0101010101010101
STRAIGHT, EVERY_OTHER, HALVES, QUARTERS = range(4)
"""layouts of D (PTX: D and A; F and C; B and E; G): row m in lane m; rows in 16 of each 32 lanes; two halves of the
columns in different lanes; four quarters of the columns in different lanes"""


# -- shared memory -----------------------------------------------------------------------------------------------------


@compiled
def swizzle_mode(descriptor):
    return (descriptor >> 61) & 7


@compiled
def swizzle_width(swizzle):
    """Return the bytes of a row of a swizzled pattern; 16 without a swizzle."""
    if swizzle == 0:
        return 16
    return 128 if swizzle <= 2 else 64 if swizzle == 4 else 32


@compiled
def swizzle_address(descriptor, at):
    swizzle = swizzle_mode(descriptor)
    line = (at >> 7) - ((descriptor >> 49) & 7)
    if swizzle == 1:
        return at ^ (line & 3) << 5
    if swizzle == 2:
        return at ^ (line & 7) << 4
    if swizzle == 4:
        return at ^ (line & 3) << 4
    if swizzle == 6:
        return at ^ (line & 1) << 4
    return at


@compiled
def element_offset(descriptor, turned, size, row, k):
    """Return the offset of an element in shared memory.  `row` is a row of `a` or a column of `b`.  `k` is in bytes; if
    `turned`, it is in elements of `size` bytes."""
    wide = swizzle_width(swizzle_mode(descriptor))
    leading, stride = ((descriptor >> 16) & 0x3FFF) << 4, ((descriptor >> 32) & 0x3FFF) << 4
    at = (descriptor & 0x3FFF) << 4
    if turned == 0:
        at += (row >> 3) * stride + (row & 7) * wide
        at += k if wide > 16 else (k >> 4) * leading + (k & 15)
    elif wide == 16:
        along = 16 // size
        at += (row // along) * stride + (row % along) * size + (k >> 3) * leading + (k & 7) * 16
    else:
        at += (row * size // wide) * leading + row * size % wide
        if swizzle_mode(descriptor) == 1:
            at += (k >> 2) * stride + (k & 3) * wide
        else:
            at += (k >> 3) * stride + (k & 7) * wide
    return swizzle_address(descriptor, at)


@compiled
def piece_offset(descriptor, turned, size, wide, q):
    """Return the offset of the q-th 16 bytes of an operand, counted row by row."""
    if turned:
        steps = PIECE * wide // size
        return element_offset(descriptor, turned, size, q // steps * (16 // size), q % steps)
    return element_offset(descriptor, turned, size, q // wide, PIECE * (q % wide))


@compiled
def shared_place(m, member, offset):
    return (SHARED << SEGMENT_SHIFT) + (member << m.window) + offset


@compiled
def is_inside(m, member, descriptor, wide, rows):
    """Return whether the bytes between all pieces of an operand that is not turned, in whole lines of a swizzle, may be
    read."""
    width = swizzle_width(swizzle_mode(descriptor))
    leading, stride = ((descriptor >> 16) & 0x3FFF) << 4, ((descriptor >> 32) & 0x3FFF) << 4
    start = (descriptor & 0x3FFF) << 4
    last = start + ((rows - 1) >> 3) * stride + 7 * width + (wide - 1) * (PIECE if width > PIECE else leading)
    end = ((last + PIECE - 1) | (LINE - 1)) + 1
    segment = segment_at(m.segments, SHARED)
    place = (member << m.window) + (start & ~(LINE - 1))
    size = end - (start & ~(LINE - 1))
    return segment.kind & IN_PIECES == 0 and place + size <= segment.bytes and is_in_window(m, place, size)


@compiled
def is_outside(m, w, pc, lane, member, descriptor, turned, size, wide, rows, report):
    """Return whether a piece of an operand must not be read; with `report`, report the first one."""
    if turned == 0 and is_inside(m, member, descriptor, wide, rows):
        return False
    for q in range(wide * rows):
        place = shared_place(m, member, piece_offset(descriptor, turned, size, wide, q))
        if host_place(m, w, pc, lane, place, PIECE, PIECE, False, True, False) == 0:
            if report:
                host_place(m, w, pc, lane, place, PIECE, PIECE, False, True, True)
            return True
    return False


@compiled
def prepare_shared(m, pc, member, descriptor):
    """Prepare the shadow memory of shared memory for an operand; return a status, DONE if it is ready."""
    return prepare(m, pc, shared_place(m, member, (descriptor & 0x3FFF) << 4), PIECE, False)


@compiled
def is_written(m, offset, used):
    """Return whether the first `used` bytes of 16 are initialized."""
    initialised = segment_at(m.segments, SHARED).initialised
    if initialised == 0:
        return True
    at = initialised + offset
    if used == PIECE:
        return load_i64(at) == WRITTEN and load_i64(at + 8) == WRITTEN
    for q in range(used):  # noqa: SIM110 (a generator does not compile)
        if load_u8(at + q) == 0:
            return False
    return True


@compiled
def read_operand(m, w, pc, lane, number, base, member, descriptor, turned, size, wide, narrow, rows, written):
    """Judge and record the reads of an operand; set a byte of `written` to 0 for each row with uninitialized bytes."""
    used = 2 * narrow if narrow else PIECE
    each = 1 if turned == 0 else 16 // size
    steps = wide if turned == 0 else PIECE * wide // size
    for row in range(rows):
        store_u8(written + row, 1)
    for q in range(wide * rows):
        offset = (member << m.window) + piece_offset(descriptor, turned, size, wide, q)
        if not is_written(m, offset, used):
            for r in range(q // steps * each, (q // steps + 1) * each):
                store_u8(written + r, 0)
        if m.clocks:
            touch_range(m, w, lane, pc, (SHARED << SEGMENT_SHIFT) + offset, PIECE, READ, base, True)
    if m.clusters and member != m.member:
        reach(m, w, pc, member, 1 << lane, number, True)


@compiled
def spread_bits(bits, narrow):
    """Return four elements of `narrow` bits, each at the top of a byte."""
    mask = (1 << narrow) - 1
    word = 0
    for j in range(4):
        word |= ((bits >> (narrow * j)) & mask) << (8 * j + 8 - narrow)
    return word


@compiled
def shared_word(m, member, descriptor, turned, size, narrow, row, group, t):
    """Return the elements of a register: those of k from byte 16 * group + 4 * t on."""
    host = segment_at(m.segments, SHARED).host + (member << m.window)
    if narrow:
        chunk = host + element_offset(descriptor, 0, 1, row, 16 * group)
        at = chunk + narrow * t // 2
        bits = load_u8(at) | load_u8(at + 1) << 8
        if narrow == 6:
            bits |= load_u8(at + 2) << 16
        return spread_bits(bits, narrow)
    if turned == 0:
        return load_u32(host + element_offset(descriptor, 0, size, row, 16 * group + 4 * t))
    word = 0
    parts = 4 // size
    for x in range(parts):
        at = host + element_offset(descriptor, 1, size, row, parts * (4 * group + t) + x)
        if size == 4:
            word = load_u32(at)
        elif size == 2:
            word |= (load_u8(at) | load_u8(at + 1) << 8) << (16 * x)
        else:
            word |= load_u8(at) << (8 * x)
    return word


@compiled
def copy_piece(m, member, descriptor, size, row, group, flip, to):
    """Copy the registers of four lanes that hold 16 bytes of a row, which is not turned: a swizzle moves them
    together."""
    host = segment_at(m.segments, SHARED).host + (member << m.window)
    source = host + element_offset(descriptor, 0, size, row, PIECE * group)
    for t in range(4):
        store_u32(to + 4 * t, load_u32(source + 4 * t) ^ flip)


# -- tensor memory -----------------------------------------------------------------------------------------------------


@compiled
def word_index(member, lane, column):
    return ((member << 9) + column) * ROWS + lane


@compiled
def load_column(m, member, lane, column):
    return load_u32(m.columns + 4 * word_index(member, lane, column))


@compiled
def is_column_written(m, member, lane, column):
    return load_u8(m.columns_written + word_index(member, lane, column))


@compiled
def row_lane(p, row, column):
    """Return the lane of an element of D."""
    if p.layout == EVERY_OTHER:
        return 32 * (row >> 4) + (row & 15) + p.lane
    if p.layout == HALVES:
        return row + 64 * (column >= p.n >> 1)
    if p.layout == QUARTERS:
        return row + 32 * (column // (p.n >> 2))
    return row


@compiled
def column_distance(p, column):
    """Return the distance of a column of D from its first one."""
    if p.layout == HALVES:
        return column % (p.n >> 1)
    if p.layout == QUARTERS:
        return column % (p.n >> 2)
    return column


@compiled
def column_count(p):
    """Return the number of columns of tensor memory that D has."""
    return p.n >> 1 if p.layout == HALVES else p.n >> 2 if p.layout == QUARTERS else p.n


@compiled
def lane_bands(p):
    """Return the bands of 16 lanes that D uses."""
    return 0x55 << (p.lane >> 4) if p.layout == EVERY_OTHER else 0xFF


@compiled
def tensor_word(m, p, member, row, column, group, t):
    """Return one register of elements of `a` from tensor memory; a column of `a` has the layout of a column of D."""
    word = load_column(m, member, row_lane(p, row, column), (p.a & 0xFFFF) + 4 * group + t)
    return (word << 2) & 0xFCFCFCFC if p.narrow_a else word
