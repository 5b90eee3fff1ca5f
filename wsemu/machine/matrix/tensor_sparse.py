"""Sparse operands of `tcgen05.mma.sp` in compiled code: which k of a row its stored elements have.

PTX ISA, "Sparse Matrices"; the positions of metadata in tensor memory are those of CuTe, because PTX has them in
figures.  A product has half of the elements of `a`: of each chunk of four k, the two that its metadata name by 4 bits.
A chunk of tf32 has two k, of 4-bit elements four pairs of k.
"""

from __future__ import annotations

from wsemu.machine.lowering import compiled
from wsemu.machine.matrix.shapes import A_CLASS, RAW
from wsemu.machine.matrix.tensor_operands import shared_word, swizzle_mode, tensor_word, word_index
from wsemu.machine.matrix.tiles import ABSENT
from wsemu.machine.records import record_finding
from wsemu.machine.scalars import load_u8, load_u32, store_i64, store_u8, store_u32
from wsemu.model.codes import CODE_NUMBERS
from wsemu.model.isa import LANES, ROW
from wsemu.model.tensor_memory import SCALED

DESCRIPTOR = CODE_NUMBERS["tcgen05-descriptor"]
INVALID_METADATA = 9
"""`what` of a finding: metadata that PTX does not define"""
VALID = 1 << 4 | 1 << 6 | 1 << 8 | 1 << 9 | 1 << 12 | 1 << 13 | 1 << 14
VALID_OF_PAIRS = 1 << 4 | 1 << 14
"""sets of valid metadata: two different indices; one of two for tf32"""
TF32 = 1
"""kind of tf32; metadata of it and of f16 are in one column"""


@compiled
def is_unmodelled(p, d):
    """Return whether PTX has the layout of a sparse product only in a figure.  So it is with fewer than 128 rows in a
    CTA, with other columns than CuTe selects, and if rows of `b`, of 64 bytes, are swizzled by 32 bytes."""
    if p.sparse == 0:
        return False
    selects = (p.metadata & 1) != 0 or (p.kind <= TF32 and (d & 3) > 1)
    return p.rows != 128 or selects or (p.turned_b == 0 and swizzle_mode(p.b) == 6)


@compiled
def metadata_columns(p):
    """Return the number of columns of metadata that a product reads."""
    return 1 if p.kind <= TF32 else 2


@compiled
def chunk_size(p):
    """Return the number of k that 4 bits of metadata describe."""
    return 2 if p.kind == TF32 else 8 if p.kind > SCALED else 4


@compiled
def chunk_count(p):
    return 128 // chunk_size(p) if p.kind > SCALED else 64 // p.size_a // chunk_size(p)


@compiled
def metadata_place(p, member, row, chunk):
    """Return 32 * index + bit, for the word of tensor memory with the 4 bits of a chunk."""
    if p.kind > TF32:
        return 32 * word_index(member, row, p.metadata + (chunk >> 3)) + 4 * (chunk & 7)
    lane = (row & 7) + 8 * (chunk >> 2) + (row & 0x70)
    return 32 * word_index(member, lane, p.metadata) + 4 * (chunk & 3) + 16 * ((row >> 3) & 1)


@compiled
def chunk_bits(m, p, member, row, chunk):
    """Return the 4 bits of metadata of a chunk."""
    place = metadata_place(p, member, row, chunk)
    return (load_u32(m.columns + 4 * (place >> 5)) >> (place & 31)) & 15


@compiled
def judge_metadata(m, p, w, pc, lane, member, rows, reported):
    """Set the bytes `rows` of rows to 0 if their metadata are uninitialized or invalid; report the first invalid ones.
    Return whether that is done."""
    valid = VALID_OF_PAIRS if p.kind == TF32 else VALID
    for row in range(p.rows):
        for chunk in range(chunk_count(p)):
            if load_u8(m.columns_written + (metadata_place(p, member, row, chunk) >> 5)) == 0:
                store_u8(rows + row, 0)
            elif (valid >> chunk_bits(m, p, member, row, chunk)) & 1 == 0:
                store_u8(rows + row, 0)
                if not reported:
                    bits = chunk_bits(m, p, member, row, chunk)
                    record_finding(
                        m.report_entry,
                        m.address,
                        (DESCRIPTOR, pc, w, 1 << lane, -1, -1),
                        (INVALID_METADATA, bits, p.kind, 0, 0),
                    )
                reported = 1
    return reported


@compiled
def stored_index(m, p, member, row, k):
    """Return the number of the stored element of a row with this k, or -1 if there is none."""
    size = chunk_size(p)
    chunk, at = k // size, k % size
    bits = chunk_bits(m, p, member, row, chunk)
    if size == 2:
        return chunk if (bits >> 1) & 1 == at else -1
    if size == 8:
        if bits & 3 == at >> 1:
            return 4 * chunk + (at & 1)
        return 4 * chunk + 2 + (at & 1) if bits >> 2 == at >> 1 else -1
    if bits & 3 == at:
        return 2 * chunk
    return 2 * chunk + 1 if bits >> 2 == at else -1


@compiled
def stored_element(m, p, member, row, column, at):
    """Return the bits of a stored element of a row of `a`."""
    offset = at * p.size_a
    group, t = offset >> 4, (offset >> 2) & 3
    if p.in_columns:
        word = tensor_word(m, p, member, row, column, group, t)
    else:
        word = shared_word(m, member, p.a, p.turned_a, p.size_a, p.narrow_a, row, group, t)
    return ((word ^ p.flip_a) >> (8 * (offset & 3))) & ((1 << (8 * p.size_a)) - 1)


@compiled
def gather_sparse_a(m, p, member, row, column):
    """Load 16 rows of `a` into RAW as the registers of a dense operand, with zeros for absent elements."""
    parts = 4 // p.size_a
    for r in range(8):
        for lane in range(LANES):
            word, at = 0, row + (lane >> 2) + 8 * (r & 1)
            for x in range(parts):
                stored = stored_index(m, p, member, at, parts * (4 * (r >> 1) + (lane & 3)) + x)
                if stored >= 0:
                    word |= stored_element(m, p, member, at, column, stored) << (8 * p.size_a * x)
            store_u32(m.matrix + RAW + ROW * r + 4 * lane, word)


@compiled
def mark_absent(m, p, member, row):
    """Mark the absent elements of 16 unpacked rows, which multiply nothing."""
    parts = 4 // p.size_a
    for r in range(8):
        for lane in range(LANES):
            for x in range(parts):
                k = parts * (4 * (r >> 1) + (lane & 3)) + x
                if stored_index(m, p, member, row + (lane >> 2) + 8 * (r & 1), k) < 0:
                    store_u32(m.matrix + A_CLASS + 4 * ((r * parts + x) * LANES + lane), ABSENT)


@compiled
def choose_elements(m, p, member, row, to):
    """Store the k of each of the 64 stored 4-bit elements of a row, as numbers of 64 bits; 0 if none is known."""
    for stored in range(64):
        store_i64(to + 8 * stored, 0)
    for k in range(128):
        stored = stored_index(m, p, member, row, k)
        if stored >= 0:
            store_i64(to + 8 * stored, k)
