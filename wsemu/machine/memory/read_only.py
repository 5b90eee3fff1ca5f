"""Checks for bytes that are loaded through the read-only cache and written in the same launch, in compiled code.

Each byte of an array has a byte of marks: whether such a load has read it (`LOADED`), and whether a store or atomic has
written it (`STORED`), by any thread at any time. A byte with both marks is an error. A second run, on one machine,
finds the first access of each kind to such a byte: its *claims*.

Only programs with such loads run this: there, `access_noted` replaces `scheduler.access`.
"""

from __future__ import annotations

from wsemu.machine.lowering import compiled, set_bits
from wsemu.machine.memory.lane_access import SAME, UNIT, simple_pattern
from wsemu.machine.records import access_at, call, claim_at, instruction_at, machine_at, segment_at, warp_at
from wsemu.machine.scalars import load_i64, load_u8, load_u32, lowest_bit, store_i64, store_u8, store_u32
from wsemu.machine.state import LOADED, STORED, UNUSED_SHIFT
from wsemu.model.isa import (
    ADDRESS_WRAPPED,
    ANYWHERE,
    FIRST_ARRAY,
    FIRST_STORE,
    LANES,
    NO_STORE,
    NON_COHERENT,
    OFFSET_MASK,
    SEGMENT_SHIFT,
)

BOTH = LOADED | STORED
FULL = (1 << LANES) - 1


@compiled
def mark(place, size, bit, unused):
    """Mark bytes, except those in `unused`; accesses of four or more bytes are marked four bytes at a time."""
    if size < 4 or unused:
        for q in range(size):
            if (unused >> q) & 1 == 0:
                store_u8(place + q, load_u8(place + q) | bit)
    else:
        for q in range(0, size, 4):
            store_u32(place + q, load_u32(place + q) | bit * 0x01010101)


@compiled
def mark_range(place, extent, bit):
    """Mark the bytes of one lane, or of 32 contiguous lanes."""
    if extent < LANES:
        mark(place, extent, bit, 0)
    else:
        for q in range(0, extent, 8):
            store_i64(place + q, load_i64(place + q) | bit * 0x0101010101010101)


@compiled
def note_range(m, first, extent, bit):
    """Mark the bytes of a valid access whose lanes are contiguous or have one address."""
    number = first >> SEGMENT_SHIFT
    if number >= FIRST_ARRAY and segment_at(m.segments, number).marked:
        mark_range(segment_at(m.segments, number).marked + (first & OFFSET_MASK), extent, bit)


@compiled
def note_lanes(m, place, bias, size, bit):
    """Mark the bytes of a valid access of all lanes, whose addresses are at `place`, to which `bias` is added."""
    for lane in range(LANES):
        note_range(m, load_i64(place + 8 * lane) + bias, size, bit)


@compiled
def claim(m, segment, offset, size, bit, unused):
    """Record the current claim for bytes with both marks that are not `unused` and have no claim of this kind yet;
    return whether there was such a byte."""
    entries = segment.claims + (4 * segment.bytes if bit == STORED else 0)
    found = False
    for q in range(size):
        place = entries + 4 * (offset + q)
        if (unused >> q) & 1:
            continue
        if load_u8(segment.marked + offset + q) == BOTH and load_u32(place) == 0:
            store_u32(place, m.claim_count + 1)
            found = True
    return found


@compiled
def mark_at_once(m, registers, i, mask, size, bit, forbids):
    """Mark the bytes of an access by a whole warp with contiguous lanes, or of an access whose lanes have one address;
    return False for other accesses."""
    pattern = simple_pattern(registers, i.a, mask, (i.aux >> 16) & 255)
    if pattern != SAME and (pattern != UNIT or mask != FULL):
        return False
    place = load_i64(registers + i.a + 8 * lowest_bit(mask)) + i.imm
    number = place >> SEGMENT_SHIFT
    if number < FIRST_ARRAY or number >= m.segment_count:
        return False
    segment = segment_at(m.segments, number)
    offset = place & OFFSET_MASK
    extent = size << 5 if pattern == UNIT else size
    if segment.kind & forbids or segment.marked == 0 or offset > segment.bytes - extent or offset & (size - 1):
        return False
    mark_range(segment.marked + offset, extent, bit)
    return True


@compiled
def note(m, w, pc, registers, i, mask, bit, unused):
    """Mark the bytes that the lanes of an access touch, or claim them; bytes with a bit in `unused` do not matter."""
    size = i.aux & 255
    forbids = access_at(m.accesses, pc).forbids & ANYWHERE
    if m.claims == 0 and unused == 0 and mark_at_once(m, registers, i, mask, size, bit, forbids):
        return
    lanes = 0
    for lane in set_bits(mask):
        place = (load_i64(registers + i.a + 8 * lane) + i.imm) & ~ADDRESS_WRAPPED
        number = place >> SEGMENT_SHIFT
        if number < FIRST_ARRAY or number >= m.segment_count:
            continue
        segment = segment_at(m.segments, number)
        offset = place & OFFSET_MASK
        if segment.kind & forbids or segment.marked == 0 or offset > segment.bytes - size or offset & (size - 1):
            continue
        if m.claims == 0:
            mark(segment.marked + offset, size, bit, unused)
        elif segment.claims and m.claim_count < m.claim_room and claim(m, segment, offset, size, bit, unused):
            lanes |= 1 << lane
    if lanes:
        made = claim_at(m.claims, m.claim_count)
        m.claim_count += 1
        made.pc = pc
        made.cta = m.group
        made.warp = w
        made.lanes = lanes
        made.interval = load_i64(warp_at(m.warps, w).clock + 8 * w) - m.base


def access_noted(address, w, pc, registers, mask):
    """Execute the access at pc as `scheduler.access` does, and mark its bytes."""
    m = machine_at(address, 0)
    if m.resumes == 0:
        i = instruction_at(m.code, pc)
        flags = i.aux >> UNUSED_SHIFT
        if i.op < FIRST_STORE:
            if flags & NON_COHERENT:
                note(m, w, pc, registers, i, mask, LOADED, flags & 0xFFFF)
        elif flags & NO_STORE == 0:
            note(m, w, pc, registers, i, mask, STORED, 0)
    return call(m.noted_entry, address, w, pc, registers, mask)
