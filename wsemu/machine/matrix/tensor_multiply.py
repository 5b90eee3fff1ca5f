"""`tcgen05.mma` in compiled code: its descriptors, its accesses, and the sums.

The sums are those of published models of the hardware (arXiv 2511.10909): all products of one instruction and the
accumulator are cut toward zero 25 bits after the largest exponent, added exactly, and rounded once.  Uninitialized rows
of `a` and columns of `b` leave uninitialized elements of D.
"""

from __future__ import annotations

from wsemu.machine.agents.agents import enter_group, room
from wsemu.machine.agents.copies import COPIED, access_cell
from wsemu.machine.lowering import compiled
from wsemu.machine.matrix.collectors import collect
from wsemu.machine.matrix.multiply import add_step, take_a, take_columns
from wsemu.machine.matrix.shapes import (
    A_CLASS,
    A_EXPONENT,
    A_SIGNIFICAND,
    A_VALUE,
    B_CLASS,
    B_EXPONENT,
    B_SIGNIFICAND,
    RAW,
    SIZE_B,
    SUMS,
    TURNED,
)
from wsemu.machine.matrix.tensor_accesses import ADDS, READS_OPERAND, fork, has_room, touch
from wsemu.machine.matrix.tensor_operands import (
    EVERY_OTHER,
    HALVES,
    QUARTERS,
    STRAIGHT,
    WRITTEN,
    column_count,
    column_distance,
    copy_piece,
    is_outside,
    lane_bands,
    prepare_shared,
    read_operand,
    row_lane,
    shared_place,
    shared_word,
    swizzle_mode,
    tensor_word,
    word_index,
)
from wsemu.machine.matrix.tensor_rights import owns_columns
from wsemu.machine.matrix.tensor_scales import add_scaled, scale_operands
from wsemu.machine.matrix.tensor_shapes import (
    COLUMNS_WRITTEN,
    FLAGS,
    OF_INTEGERS,
    OF_SPARSE,
    ROWS_WRITTEN,
    SPANS,
    UNPACKED,
)
from wsemu.machine.matrix.tensor_sparse import (
    gather_sparse_a,
    is_unmodelled,
    judge_metadata,
    mark_absent,
    metadata_columns,
)
from wsemu.machine.matrix.tiles import SMALL, WIDEST, add_integers, add_multiples, find_span
from wsemu.machine.memory.cell_bits import BULK
from wsemu.machine.records import product_at, record_finding, shape_at
from wsemu.machine.scalars import load_i64, load_u8, load_u32, lowest_bit, store_i64, store_u8, store_u32
from wsemu.machine.state import DONE, MULTIPLIES_FLOATS, TRAP
from wsemu.machine.sync.events import log, note_operand, report_failure
from wsemu.machine.sync.lane_clocks import inherit_known
from wsemu.machine.sync.peers import reach
from wsemu.model.codes import CODE_NUMBERS
from wsemu.model.isa import LANES, ROW
from wsemu.model.tensor_memory import (
    KIND_BITS,
    MASKED,
    METADATA_COLUMNS,
    PAIR,
    ROWS_BEFORE_MASKS,
    SCALED,
    SPARSE,
    TENSOR_A,
    VECTOR_BITS,
    VECTOR_SHIFT,
    WEIGHTS,
)

DESCRIPTOR = CODE_NUMBERS["tcgen05-descriptor"]
VERSION, SWIZZLE, RESERVED, SHAPE, TYPES, SPARSITY, LAYOUT, PLACE = range(1, 9)
"""errors in the descriptors of an mma, by number"""
RESERVED_BITS = 0x1FF << 52 | 3 << 30 | 3 << 14
"""bits of a shared memory descriptor that must be 0; bit 52 makes LBO an address, which only K = 96 allows"""
F16, TF32, BYTES, INTEGERS = range(4)
"""kinds of products without scale factors"""
TENSOR_ADDRESS = 0x3FFFFFFF
"""bits of the address of scale factors; the bits above it may select a byte of them (CuTe)"""
KIND = 3
"""kind of the group of products and copies that a thread has issued"""
MIXES = 0x2545F4914F6CDD1D
"""an odd factor that spreads the bits of a number"""


# -- what it says ------------------------------------------------------------------------------------------------------


@compiled
def take_types(p, d):
    """Set the types that an instruction descriptor names, and return whether they exist."""
    of_d, a, b = (d >> 4) & 3, (d >> 7) & 7, (d >> 10) & 7
    p.narrow_a = 0
    p.narrow_b = 0
    if p.kind == F16:
        p.shape = (a * 8 + b) * 2 + of_d
        p.size_a = 2
        p.size_b = 2
        return a <= 1 and b == a and of_d <= 1 and (of_d == 1 or a == 0)
    if p.kind == TF32:
        p.shape = (2 * 8 + 2) * 2 + 1
        p.size_a = 4
        p.size_b = 4
        return a == 2 and b == 2 and of_d == 1
    p.size_a = 1
    p.size_b = 1
    if p.kind == INTEGERS:
        p.shape = OF_INTEGERS + 2 * a + b
        return a <= 1 and b <= 1 and of_d == 2
    if p.kind > SCALED:
        p.shape = (7 * 8 + 7) * 2 + 1
        return a == 1 and b & 3 == 1
    p.narrow_a = narrow_bits(a)
    p.narrow_b = narrow_bits(b)
    of_d = 1 if p.kind == SCALED else of_d
    if a > 5 or b > 5 or a == 2 or b == 2 or of_d > 1:
        return False
    p.shape = (float_number(a) * 8 + float_number(b)) * 2 + of_d
    return True


@compiled
def narrow_bits(number):
    """Return the bits of a type of f8f6f4, if they are fewer than 8; otherwise 0."""
    return 0 if number < 3 else 6 if number < 5 else 4


@compiled
def float_number(number):
    """Return the row of a type of f8f6f4 in the table of all floating-point types."""
    return number + 3 if number < 2 else number + 2


@compiled
def sign_bits(size):
    return 0x80008000 if size == 2 else 0x80808080 if size == 1 else 0x80000000


@compiled
def turns_bytes(p):
    """Return whether `b` is transposed and has elements of a byte."""
    return p.turned_b and p.size_b == 1


@compiled
def take_layout(p, m_rows, weights):
    """Set the layout of D; return whether PTX has the shape."""
    p.rows = m_rows >> p.pair
    p.layout = STRAIGHT
    n = p.n
    if weights:
        p.layout = QUARTERS if m_rows == 32 else HALVES if m_rows == 64 else STRAIGHT
        return m_rows in (32, 64, 128) and (n in (64, 128) or (n == 256 and p.sparse == 0))
    if p.pair:
        if m_rows == 128:
            p.layout = EVERY_OTHER if p.sparse else HALVES
        step_n = 32 if p.kind == INTEGERS or turns_bytes(p) else 16
        good = m_rows == 256 or (m_rows == 128 and (p.sparse == 0 or p.kind < SCALED))
        return good and n >= step_n and n <= 256 and n % step_n == 0
    if m_rows == 64:
        p.layout = EVERY_OTHER
    good = m_rows == 128 or (m_rows == 64 and p.kind < SCALED)
    if (p.kind == INTEGERS and n > 32) or turns_bytes(p):
        good = good and n % 16 == 0
    return good and n >= 8 and n <= 256 and n % 8 == 0


@compiled
def reserved_bits(kind, sparse, weights, vector):
    """Return the bits of an instruction descriptor that must be 0, among them low bits of the first bytes of
    factors, and the selector of metadata that use both columns."""
    if kind < SCALED:
        selector = 3 if sparse and kind > TF32 else 0
        return 0x20800040 | selector | (0 if kind == INTEGERS else 8) | (0 if weights else 0xC0000000)
    if kind == SCALED:
        return 0x8700004B
    return 0x0701904B | ((1 << vector) - 1) << 29 | ((1 << vector) - 1) << 4


@compiled
def judge_matrix(p, descriptor, turned, size, narrow):
    """Return the error in a descriptor of a matrix in shared memory, or 0."""
    if (descriptor >> 46) & 7 != 1:
        return VERSION
    if descriptor & RESERVED_BITS:
        return RESERVED
    swizzle = swizzle_mode(descriptor)
    if swizzle in (3, 5, 7):
        return SWIZZLE
    wide = turned and size == 4
    if (swizzle == 1) != (wide != 0) or (turned and (narrow or p.kind > SCALED)):
        return LAYOUT
    return 0


@compiled
def is_misplaced(p):
    """Return whether D, or A or metadata in tensor memory, begins at a lane where it must not."""
    if p.lane != 0 and (p.layout != EVERY_OTHER or p.lane != 16):
        return True
    if p.sparse and p.metadata >> 16 != p.lane:
        return True
    return p.in_columns and (p.a >> 16) & 0xFFFF != p.lane


@compiled
def decode_product(m, p, registers, i, lane):
    """Decode an mma into its PRODUCT; `wrong` gets the error in its descriptors."""
    d = load_u32(registers + i.c + 4 * lane)
    at = load_u32(registers + i.d + 4 * lane)
    weights = i.aux & WEIGHTS
    p.kind = i.aux & KIND_BITS
    p.pair = (i.aux & PAIR) != 0
    p.n = ((d >> 17) & 63) << 3
    p.lane = at >> 16
    p.column = at & 0xFFFF
    p.in_columns = (i.aux & TENSOR_A) != 0
    p.sparse = (i.aux & SPARSE) != 0
    p.a = load_i64(registers + i.a + 8 * lane)
    p.b = load_i64(registers + i.b + 8 * lane)
    p.turned_a = 0 if p.in_columns else (d >> 15) & 1
    p.turned_b = (d >> 16) & 1
    p.adds = (load_u32(registers + i.imm) >> lane) & 1
    p.clamps = (d >> 3) & 1
    p.wrong = 0
    p.value = d
    good_types = take_types(p, d)
    if p.sparse:
        p.shape += OF_SPARSE
        p.metadata = load_u32(registers + i.d + 3 * ROW + 4 * lane)
    p.flip_a = sign_bits(p.size_a) if (d >> 13) & 1 else 0
    p.flip_b = sign_bits(p.size_b) if (d >> 14) & 1 else 0
    m_rows = ((d >> 24) & 31) << 4
    good_shape = take_layout(p, m_rows, weights)
    if (d >> 2) & 1 != ((i.aux & SPARSE) != 0):
        p.wrong = SPARSITY
    elif d & reserved_bits(p.kind, p.sparse, weights, (i.aux >> VECTOR_SHIFT) & VECTOR_BITS):
        p.wrong = RESERVED
    elif not good_types:
        p.wrong = TYPES
    elif not good_shape:
        p.wrong = SHAPE
    elif is_misplaced(p):
        p.wrong = PLACE
    else:
        if not p.in_columns:
            p.wrong = judge_matrix(p, p.a, p.turned_a, p.size_a, p.narrow_a)
            p.value = p.a
        if p.wrong == 0:
            p.wrong = judge_matrix(p, p.b, p.turned_b, p.size_b, p.narrow_b)
            p.value = p.b
    take_masks(p, registers, i, lane)
    if p.kind >= SCALED:
        p.vector = (i.aux >> VECTOR_SHIFT) & VECTOR_BITS
        p.scale_a = load_u32(registers + i.d + ROW + 4 * lane) & TENSOR_ADDRESS
        p.scale_b = load_u32(registers + i.d + 2 * ROW + 4 * lane) & TENSOR_ADDRESS
        if p.wrong == 0 and (p.scale_a | p.scale_b) >> 16:
            p.wrong = PLACE
            p.value = d
        p.id_a = (d >> 29) & 3
        p.id_b = (d >> 4) & 3
        p.fine = p.kind > SCALED and (d >> 23) & 1 == 0


@compiled
def take_masks(p, registers, i, lane):
    """Set the masks of the lanes of D that are not written."""
    p.masked = (i.aux & MASKED) != 0
    if p.masked:
        for q in range(8 if p.pair else 4):
            p.left_out[q] = load_u32(registers + i.d + ROW * (ROWS_BEFORE_MASKS + q) + 4 * lane)


# -- one instruction ---------------------------------------------------------------------------------------------------


@compiled
def columns_per_cta(p):
    """Return the rows of b in the shared memory of one CTA."""
    return p.n >> p.pair


@compiled
def factor_columns(p):
    """Return the number of columns with the factors of b."""
    return ((p.n >> 1 if p.layout == HALVES else p.n) + 31) // 32


@compiled
def leaves_memory(m, p, w, pc, lane, first, report):
    """Return whether an operand leaves shared memory; with `report`, report it."""
    for q in range(1 + p.pair):
        of_a = 0 if p.in_columns else p.rows
        if is_outside(m, w, pc, lane, first + q, p.a, p.turned_a, p.size_a, 2, of_a, report):
            return True
        wide = 2 << p.sparse
        if is_outside(m, w, pc, lane, first + q, p.b, p.turned_b, p.size_b, wide, columns_per_cta(p), report):
            return True
    return False


@compiled
def has_columns(m, p, w, pc, lane, member, group, report):
    """Return whether a CTA owns the columns that an mma uses; with `report`, report it if not."""
    good = owns_columns(m, w, pc, lane, member, p.column, column_count(p), report)
    if good and p.in_columns:
        good = owns_columns(m, w, pc, lane, member, p.a & 0xFFFF, 8, report)
    if good and p.sparse:
        good = owns_columns(m, w, pc, lane, member, p.metadata & ~1, METADATA_COLUMNS, report)
    if good and p.kind >= SCALED:
        good = owns_columns(m, w, pc, lane, member, p.scale_a, 4, report)
        if good:
            good = owns_columns(m, w, pc, lane, member, p.scale_b, factor_columns(p), report)
    return good


@compiled
def mix_operands(p, d):
    """Return a number that other operands of an mma change."""
    found = ((d * MIXES ^ p.a) * MIXES ^ p.b) * MIXES ^ p.adds << 32 ^ p.lane << 16 ^ p.column
    if p.sparse:
        found = found * MIXES ^ p.metadata
    if p.kind >= SCALED:
        found = found * MIXES ^ p.scale_a << 16 ^ p.scale_b
    return found


@compiled
def multiply(m, w, pc, registers, i, lane):
    """Execute the `tcgen05.mma` of a lane, and return a status."""
    p = product_at(m.product, 0)
    decode_product(m, p, registers, i, lane)
    first = m.member & ~1 if p.pair else m.member
    d = load_u32(registers + i.c + 4 * lane)
    if p.kind > SCALED and (d >> 31) & 1:  # K = 96, which is not modelled
        report_failure(m, w, pc)
        return TRAP
    if p.wrong == 0 and is_unmodelled(p, d):
        report_failure(m, w, pc)
        return TRAP
    if p.sparse and p.kind <= TF32:
        p.metadata += d & 1
    if p.wrong:
        m.serial += 1
        record_finding(
            m.report_entry, m.address, (DESCRIPTOR, pc, w, 1 << lane, -1, -1), (p.wrong, p.value, p.kind, 0, 0)
        )
        return DONE
    bad = leaves_memory(m, p, w, pc, lane, first, False)
    for q in range(1 + p.pair):
        bad |= not has_columns(m, p, w, pc, lane, first + q, 1 + p.pair, False)
    if not bad:
        status = room(m, 1)
        if status == DONE:
            status = has_room(m)
        for q in range(1 + p.pair):
            if status == DONE:
                status = prepare_shared(m, pc, first + q, p.b)
        if status != DONE:
            return status
    m.serial += 1
    if bad:
        for q in range(1 + p.pair):
            has_columns(m, p, w, pc, lane, first + q, 1 + p.pair, True)
        leaves_memory(m, p, w, pc, lane, first, True)
        return DONE
    number = fork(m, w, lane, pc)
    base = 0
    if m.clocks:
        inherit_known(m, w, lane)
        base = access_cell(number, BULK + w, lane, pc)
        enter_group(m, w, lane, KIND, number)
    total = 32 * (p.rows + (p.n << p.sparse))
    log(m, COPIED, w, pc, shared_place(m, first, (p.b & 0x3FFF) << 4), -1, 1 << lane, total)
    note_operand(m, mix_operands(p, d))
    if p.pair:
        reach(m, w, pc, m.member ^ 1, 1 << lane, number, True)
    for q in range(1 + p.pair):
        touch_columns(m, p, w, pc, lane, number, first + q)
    collect(m, p, w, pc, lane, i.aux, first)
    read_columns_of_b(m, p, w, pc, lane, number, base, first)
    reported = 0
    for q in range(1 + p.pair):
        read_rows_of_a(m, p, w, pc, lane, number, base, first + q)
        if p.sparse:
            rows = m.columns_scratch + ROWS_WRITTEN
            reported = judge_metadata(m, p, w, pc, lane, first + q, rows, reported)
        multiply_rows(m, p, first, first + q)
    return DONE


@compiled
def touch_columns(m, p, w, pc, lane, number, member):
    """Record the accesses of a product to the tensor memory of a CTA."""
    bit, group, bands = 1 << lane, 1 + p.pair, lane_bands(p)
    if p.in_columns:
        a = p.a & 0xFFFF
        touch(m, w, bit, pc, number, member, READS_OPERAND, group, 0, bands, a, a + 8)
    if p.sparse:
        high = p.metadata + metadata_columns(p)
        touch(m, w, bit, pc, number, member, READS_OPERAND, group, 0, 0xFF, p.metadata, high)
    if p.kind >= SCALED:
        touch(m, w, bit, pc, number, member, READS_OPERAND, group, 0, 0xFF, p.scale_a, p.scale_a + 4)
        high = p.scale_b + factor_columns(p)
        touch(m, w, bit, pc, number, member, READS_OPERAND, group, 0, 0xFF, p.scale_b, high)
    key = p.column | p.lane << 16 | p.rows << 24 | p.n << 32 | p.layout << 44
    touch(m, w, bit, pc, number, member, ADDS, group, key, bands, p.column, p.column + column_count(p))


@compiled
def read_columns_of_b(m, p, w, pc, lane, number, base, first):
    """Record the reads of b, and load the registers of all its columns."""
    part, registers = columns_per_cta(p), 2 << p.sparse
    for q in range(1 + p.pair):
        written = m.columns_scratch + COLUMNS_WRITTEN + q * part
        read_operand(
            m, w, pc, lane, number, base, first + q, p.b, p.turned_b, p.size_b, registers, p.narrow_b, part, written
        )  # fmt: skip
    for block in range(p.n >> 3):
        for r in range(registers):
            to = m.columns_scratch + ROW * (registers * block + r)
            for g in range(8):
                column = 8 * block + g
                member, row = first + column // part, column % part
                if p.turned_b or p.narrow_b:
                    for t in range(4):
                        word = shared_word(m, member, p.b, p.turned_b, p.size_b, p.narrow_b, row, r, t)
                        store_u32(to + 16 * g + 4 * t, word ^ p.flip_b)
                else:
                    copy_piece(m, member, p.b, p.size_b, row, r, p.flip_b, to + 16 * g)


@compiled
def gather_a(m, p, member, row, column):
    """Load the registers of 16 rows of a into RAW."""
    for r in range(4):
        for g in range(8):
            at, to = row + g + 8 * (r & 1), m.matrix + RAW + ROW * r + 16 * g
            if p.in_columns:
                for t in range(4):
                    store_u32(to + 4 * t, tensor_word(m, p, member, at, column, r >> 1, t) ^ p.flip_a)
            elif p.turned_a or p.narrow_a:
                for t in range(4):
                    word = shared_word(m, member, p.a, p.turned_a, p.size_a, p.narrow_a, at, r >> 1, t)
                    store_u32(to + 4 * t, word ^ p.flip_a)
            else:
                copy_piece(m, member, p.a, p.size_a, at, r >> 1, p.flip_a, to)


@compiled
def read_rows_of_a(m, p, w, pc, lane, number, base, member):
    """Record the reads of `a` in one CTA, and which of its rows are initialized."""
    rows = m.columns_scratch + ROWS_WRITTEN
    if p.in_columns:
        for row in range(p.rows):
            store_u8(rows + row, is_row_written(m, p, member, row))
    else:
        read_operand(m, w, pc, lane, number, base, member, p.a, p.turned_a, p.size_a, 2, p.narrow_a, p.rows, rows)


@compiled
def multiply_rows(m, p, first, member):
    """Compute the rows of a product in one CTA."""
    if p.kind > SCALED:
        add_scaled(m, p, member)
        return
    s = shape_at(m.tensor_shapes, p.shape)
    if member == first or p.kind == SCALED:
        unpack_columns(m, p, s, member)
    for row in range(0, p.rows, 16):
        special = 0
        span = 0
        for block in range(p.n >> 3):
            if block == 0 or (p.in_columns and p.layout >= HALVES):
                if p.sparse:
                    gather_sparse_a(m, p, member, row, 8 * block)
                else:
                    gather_a(m, p, member, row, 8 * block)
                special = take_a(m, s, m.matrix + RAW, 0)
                if p.sparse:
                    mark_absent(m, p, member, row)
                if p.kind == SCALED:
                    special |= SMALL
                    special |= scale_operands(m, p, member, row, 0, m.matrix + A_EXPONENT, m.matrix + A_CLASS)
                span = find_rows_span(m, p, s)
            flags = special | load_u8(m.columns_scratch + FLAGS + block)
            if flags == 0 and add_block_exactly(m, p, s, member, row, block, span):
                mark_block(m, p, member, row, 8 * block)
                continue
            load_block(m, p, s, member, row, 8 * block)
            add_block(m, p, s, block, flags)
            store_block(m, p, s, member, row, 8 * block)


@compiled
def unpacked_block(m, block):
    """Return the address of the buffer with a block of 8 columns of b."""
    return m.columns_scratch + UNPACKED + SIZE_B * block - B_SIGNIFICAND


@compiled
def unpack_columns(m, p, s, member):
    """Unpack all columns of b, once for all rows."""
    for block in range(p.n >> 3):
        to = unpacked_block(m, block)
        special = take_columns(to, s, m.columns_scratch + (2 << p.sparse) * ROW * block, 0)
        if p.kind == SCALED:
            special |= scale_operands(m, p, member, 8 * block, 1, to + B_EXPONENT, to + B_CLASS)
        store_u8(m.columns_scratch + FLAGS + block, special)
        span = -1
        if may_be_exact(p, s):
            span = find_span(to, B_SIGNIFICAND, B_EXPONENT, 4 * s.groups * s.parts, s.b_mantissa)
        store_i64(m.columns_scratch + SPANS + 8 * block, span)


@compiled
def may_be_exact(p, s):
    """Return whether sums of a product may be computed without rounding, if their values allow it."""
    return s.what == MULTIPLIES_FLOATS and s.bytes == 4 and p.sparse == 0 and p.kind < SCALED and p.masked == 0


@compiled
def find_rows_span(m, p, s):
    """Return the span of 16 rows of `a`, and write them as columns; -1 if sums must be rounded."""
    if not may_be_exact(p, s):
        return -1
    span = find_span(m.matrix, A_SIGNIFICAND, A_EXPONENT, 8 * s.groups * s.parts, s.a_mantissa)
    if span >= 0:
        for r in range(2 * s.groups):
            for x in range(s.parts):
                source = m.matrix + A_VALUE + 4 * LANES * (r * s.parts + x)
                to = m.matrix + TURNED + 64 * 4 * ((r >> 1) * s.parts + x) + 32 * (r & 1)
                for lane in range(LANES):
                    store_u32(to + 64 * (lane & 3) + 4 * (lane >> 2), load_u32(source + 4 * lane))
    return span


@compiled
def add_block_exactly(m, p, s, member, row, block, span):
    """Add all products of 16 x 8 elements without rounding; return whether their values allow that."""
    span |= load_i64(m.columns_scratch + SPANS + 8 * block)
    if span <= 0:
        return False
    low = lowest_bit(span)
    if low > 48 or span >> (low + WIDEST):
        return False
    column = 8 * block
    first = word_index(member, row_lane(p, row, column), p.column + column_distance(p, column))
    place, count = m.columns + 4 * first, 4 * s.groups * s.parts
    return add_multiples(m.matrix + TURNED, unpacked_block(m, block), place, 512, count, p.adds, low)


@compiled
def is_row_written(m, p, member, row):
    """Return whether a row of `a` in tensor memory is initialized."""
    for q in range(8):
        at = word_index(member, row_lane(p, row, 0), (p.a & 0xFFFF) + q)
        if load_u8(m.columns_written + at) == 0:
            return 0
    return 1


@compiled
def sum_column(q):
    """Return the column of the q-th sum of a row."""
    return 2 * q if q < 4 else 2 * q - 7


@compiled
def load_block(m, p, s, member, row, column):
    """Load 16 x 8 elements of D, or zeros, into the buffer; the lanes of 16 rows are consecutive."""
    mask = 0xFFFF if s.bytes == 2 else 0xFFFFFFFF
    first = word_index(member, row_lane(p, row, column), p.column + column_distance(p, column))
    for q in range(8):
        at = m.columns + 4 * (first + 128 * sum_column(q))
        for i in range(16):
            value = 0
            if p.adds:
                value = load_u32(at + 4 * i) & mask
            store_u32(m.matrix + SUMS + 4 * (8 * i + q), value)


@compiled
def mark_block(m, p, member, row, column):
    """Mark the sums of 16 x 8 elements as initialized, if the elements are."""
    columns, written = m.columns_scratch + COLUMNS_WRITTEN + column, m.columns_written
    rows = m.columns_scratch + ROWS_WRITTEN + row
    low, high = load_i64(rows), load_i64(rows + 8)
    first = word_index(member, row_lane(p, row, column), p.column + column_distance(p, column))
    for c in range(8):
        at = written + first + 128 * c
        known = load_u8(columns + c) * WRITTEN
        of_low, of_high = low & known, high & known
        if p.adds:
            of_low &= load_i64(at)
            of_high &= load_i64(at + 8)
        store_i64(at, of_low)
        store_i64(at + 8, of_high)


@compiled
def store_block(m, p, s, member, row, column):
    """Store the sums of the buffer in D, except for masked lanes."""
    columns, written = m.columns_scratch + COLUMNS_WRITTEN + column, m.columns_written
    rows = m.columns_scratch + ROWS_WRITTEN + row
    low, high = load_i64(rows), load_i64(rows + 8)
    lane = row_lane(p, row, column)
    first = word_index(member, lane, p.column + column_distance(p, column))
    left_out = 0
    if p.masked:
        left_out = p.left_out[4 * (member & p.pair) + (lane >> 5)] >> (lane & 31)
    for q in range(8):
        c = sum_column(q)
        at = first + 128 * c
        known = load_u8(columns + c) * WRITTEN
        of_low, of_high = low & known, high & known
        if p.adds:
            of_low &= load_i64(written + at)
            of_high &= load_i64(written + at + 8)
        if left_out & 0xFFFF:
            for i in range(16):
                if (left_out >> i) & 1 == 0:
                    store_u32(m.columns + 4 * (at + i), load_u32(m.matrix + SUMS + 4 * (8 * i + q)))
                    store_u8(written + at + i, ((of_low if i < 8 else of_high) >> (8 * (i & 7))) & 1)
        else:
            for i in range(16):
                store_u32(m.columns + 4 * (at + i), load_u32(m.matrix + SUMS + 4 * (8 * i + q)))
            store_i64(written + at, of_low)
            store_i64(written + at + 8, of_high)


@compiled
def add_block(m, p, s, block, special):
    """Add all products of 16 x 8 elements at once."""
    columns = unpacked_block(m, block)
    if s.what != MULTIPLIES_FLOATS:
        add_integers(m.matrix, columns, s.halves, s.parts, s.groups, 0, p.clamps)
        return
    half = s.bytes == 2
    add_step(m, columns, s, 0, s.groups, 0, s.parts, 25, half, 23, special)
