"""Bounds and initialization checks of accesses to global, shared and local memory, in compiled code.

An access is checked as a whole (`lane_access.lane_pattern`). Only if that fails are its lanes checked one at a time
(`careful_lane`), and each error is reported. A lane whose access is out of bounds is left out: its load returns 0, and
its store does nothing.
"""

from __future__ import annotations

from wsemu.machine.lowering import compiled, set_bits
from wsemu.machine.memory.lane_access import SAME, UNIT
from wsemu.machine.records import (
    access_at,
    instruction_at,
    machine_at,
    raw_at,
    record_finding,
    segment_at,
    slot_at,
    variable_at,
)
from wsemu.machine.scalars import load_i64, load_u8, load_u32, set_bytes, store_u8, unset_bytes
from wsemu.machine.state import BAD_INDEX, ELSEWHERE, GAP, OUTSIDE, PC_BITS, READ_ONLY, UNUSED_SHIFT, WRAPPED
from wsemu.model.codes import CODE_NUMBERS
from wsemu.model.isa import (
    ADDRESS_OUT,
    ADDRESS_WRAPPED,
    ANYWHERE,
    IN_PIECES,
    INDEX_BIAS,
    LANES,
    LOCAL,
    LOCAL_SHIFT,
    N_MEMORY,
    ON_STACK,
    SEGMENT_SHIFT,
    SHARED,
    STACK_UNIT,
)

ONES, SIGNS = 0x0101010101010101, -0x7F7F7F7F7F7F7F80
"""eight bytes of 1, and eight bytes whose highest bit is set, as a signed number"""
OUT_OF_BOUNDS, MISALIGNED, UNINITIALIZED = (
    CODE_NUMBERS[c] for c in ("out-of-bounds", "misaligned", "uninitialized-read")
)


@compiled
def number_of(m, code, pc, other_pc):
    """Return the number of the RAW finding with this code and these locations; a new one has the count 0.

    Return -1 if the table of RAWs was full when it was found, or if the table of findings is full now.
    """
    key = (((code + 1) << PC_BITS | (pc + 1)) << PC_BITS) | (other_pc + 1)
    h = (key * 0x2545F4914F6CDD1D) >> 33
    while True:
        slot = slot_at(m.slots, h & m.slot_mask)
        if slot.key == key:
            return slot.number
        if slot.key == 0:
            break
        h += 1
    if 2 * m.slot_count > m.slot_mask:
        return -1
    m.slot_count += 1
    slot.key = key
    slot.number = -1
    if m.raw_count < m.raw_capacity:
        slot.number = m.raw_count
        m.raw_count += 1
        r = raw_at(m.raw, slot.number)
        r.code = code
        r.pc = pc
        r.other_pc = other_pc
        r.count = 0
        r.serial = 0
        r.apart = 0
    return slot.number


def enter_finding(address, code, pc, warp, lanes, other_pc, other_warp, x0, x1, x2, x3, x4):
    """Enter a finding, or count it if this code was already recorded for these two locations.  Called by address."""
    m = machine_at(address, 0)
    found = number_of(m, code, pc, other_pc)
    if found < 0:
        return 0
    r = raw_at(m.raw, found)
    r.count += 1
    if r.count == 1:
        r.cta = m.group
        r.warp = warp
        r.lanes = lanes
        r.other_warp = other_warp
        r.detail[0] = x0
        r.detail[1] = x1
        r.detail[2] = x2
        r.detail[3] = x3
        r.detail[4] = x4
    return 0


@compiled
def extent_of(m, variable, lane):
    """Return the start of a variable in a lane's local memory, its bytes, and whether it may be written."""
    if variable & ON_STACK == 0:
        if variable >= m.variable_count:
            return 0, 0, 1
        known = variable_at(m.variables, variable)
        return known.begin, known.bytes, known.writable
    unit = variable ^ ON_STACK
    at = unit * STACK_UNIT
    if unit == 0 or at > m.thread_bytes:
        return at, 0, 1
    word = load_i64(segment_at(m.segments, LOCAL).host + lane * m.thread_bytes + at - STACK_UNIT)
    begin, size = (word >> 48) * STACK_UNIT, word & 0xFFFFFFFF
    if (word >> 32) & 0xFFFF != unit or begin < 0 or begin + size > m.thread_bytes:  # the function has returned
        return at, 0, 1
    return begin, size, 1


@compiled
def offset_in_local(m, offset, lane, size, writes):
    """Return the offset of an address in the warp's local memory, without the number of its variable.

    Return -1 if the lane's access leaves the variable, or must not write it.
    """
    begin, extent, writable = extent_of(m, offset >> LOCAL_SHIFT, lane)
    offset &= (1 << LOCAL_SHIFT) - 1
    inside = offset - lane * m.thread_bytes - begin
    if inside < 0 or inside > extent - size or (writes and writable == 0):
        return -1
    return offset


@compiled
def is_in_gap(segment, offset, size):
    """Return whether an access touches bytes between the elements of a segment's arrays, or between its allocations."""
    if segment.covered:
        for q in range(size):
            if load_u8(segment.covered + offset + q) == 0:
                return True
    return False


@compiled
def report_lane(m, pc, warp, lane, address, why, size, number, extent):
    """Report an access of a lane that is out of bounds, and return 0: it must be left out."""
    record_finding(
        m.report_entry, m.address, (OUT_OF_BOUNDS, pc, warp, 1 << lane, -1, -1), (address, why, size, number, extent)
    )
    return 0


@compiled
def careful_lane(m, pc, warp, address, lane, size, writes):
    """Check one lane's access and report its errors; return host address minus virtual address, or 0 for an access that
    must be left out."""
    if address & ADDRESS_OUT and address >= 0:  # `index` sets this flag, and stores the index in the address
        index = ((address >> SEGMENT_SHIFT) & (2 * INDEX_BIAS - 1)) - INDEX_BIAS
        return report_lane(m, pc, warp, lane, index, BAD_INDEX, size, 0, 0)
    if address < 0:
        return report_lane(m, pc, warp, lane, address, OUTSIDE, size, 0, 0)
    flag = address & ADDRESS_WRAPPED
    address ^= flag
    number = address >> SEGMENT_SHIFT
    if number < SHARED or number >= m.segment_count:
        return report_lane(m, pc, warp, lane, address, OUTSIDE, size, number, 0)
    segment = segment_at(m.segments, number)
    if segment.kind & access_at(m.accesses, pc).forbids & ANYWHERE:
        return report_lane(m, pc, warp, lane, address, ELSEWHERE, size, number, segment.bytes)
    return allowed_lane(m, pc, warp, segment, address, flag, lane, size, writes)


@compiled
def allowed_lane(m, pc, warp, segment, address, flag, lane, size, writes):
    """Check one lane's access to a segment that its instruction may access; return a result like `careful_lane`."""
    number, offset = address >> SEGMENT_SHIFT, address & ((1 << SEGMENT_SHIFT) - 1)
    begin, extent, writable, variable = 0, segment.bytes, segment.writable, 0
    if number == LOCAL:
        variable = offset >> LOCAL_SHIFT
        begin, extent, writable = extent_of(m, variable, lane)
        begin += lane * m.thread_bytes
        variable <<= LOCAL_SHIFT
        offset -= variable
    beyond = offset < begin or offset - begin > extent - size
    if beyond or (segment.kind & IN_PIECES and is_in_gap(segment, offset, size)):
        return report_lane(m, pc, warp, lane, address, OUTSIDE, size, number, extent)
    if offset & (size - 1):
        bit = 1 << lane
        record_finding(m.report_entry, m.address, (MISALIGNED, pc, warp, bit, -1, -1), (address, size, size, number, 0))
        return 0
    if writes and writable == 0:
        return report_lane(m, pc, warp, lane, address, READ_ONLY, size, number, extent)
    if writes and is_in_gap(segment, offset, size):
        report_lane(m, pc, warp, lane, address, GAP, size, number, extent)
    if flag:
        report_lane(m, pc, warp, lane, address, WRAPPED, size, number, extent)
    return segment.host - (number << SEGMENT_SHIFT) - flag - variable


@compiled
def note_written(initialised, offset, size):
    """Mark bytes as initialized, and return how many were not before."""
    new = 0
    for q in range(size):
        new += load_u8(initialised + offset + q) == 0
        store_u8(initialised + offset + q, 1)
    return new


@compiled
def was_written(initialised, offset, size, unused):
    for q in range(size):  # noqa: SIM110 (a generator does not compile)
        if load_u8(initialised + offset + q) == 0 and (unused >> q) & 1 == 0:
            return False
    return True


@compiled
def some_unset(place, size):
    """Return whether one of `size` bytes in the map is not initialized; `size` is a power of two up to 16."""
    if size == 4:
        v = load_u32(place)
        return (v - 0x01010101) & ~v & 0x80808080 != 0
    if size < 8:
        return not was_written(place, 0, size, 0)
    unset = 0
    for q in range(0, size, 8):
        v = load_i64(place + q)
        unset |= (v - ONES) & ~v & SIGNS
    return unset != 0


@compiled
def all_set(registers, a, bias, mask, pattern, size, initialised):
    """Return whether all bytes of an access are initialized."""
    if pattern == SAME:
        mask &= -mask
    for lane in set_bits(mask):  # noqa: SIM110 - compiled code has no generators
        if some_unset(initialised + load_i64(registers + a + 8 * lane) + bias, size):
            return False
    return True


@compiled
def track_initialised(m, pc, warp, number, registers, a, bias, mask, pattern, size, writes, reads):
    """Mark stored bytes of shared and local memory, and report loads of unmarked bytes.

    Tracking of a segment ends when all its bytes are marked.
    """
    segment = segment_at(m.segments, number)
    initialised = segment.initialised
    new = 0
    if pattern == UNIT:
        first = load_i64(registers + a) + bias
        for piece in range(size):
            place = initialised + first + piece * LANES
            unset = unset_bytes(place)
            if unset and reads:
                report_unwritten(m, pc, warp, number, registers, a, bias, mask, size, initialised)
                if not writes:
                    return
                reads = False
            if unset:
                set_bytes(place)
                new += unset
    elif not all_set(registers, a, bias, mask, pattern, size, initialised):
        if reads:
            report_unwritten(m, pc, warp, number, registers, a, bias, mask, size, initialised)
        for lane in set_bits(mask if writes else 0):
            new += note_written(initialised, load_i64(registers + a + 8 * lane) + bias, size)
    segment.unwritten -= new
    if segment.unwritten == 0:
        segment.initialised = 0


@compiled
def forget_bytes(m, warp, a, b, mask):
    """Mark bytes of the lanes' local memory as uninitialized: row `a` has the addresses, row `b` the numbers."""
    local = segment_at(m.segments, LOCAL)
    if warp.local_map == 0:
        return
    if local.initialised == 0:
        local.initialised = warp.local_map
        local.unwritten = 0
    for lane in set_bits(mask):
        first = load_i64(warp.registers + a + 8 * lane) & ((1 << LOCAL_SHIFT) - 1)
        end = min(first + load_i64(warp.registers + b + 8 * lane), (lane + 1) * m.thread_bytes)
        for place in range(warp.local_map + first, warp.local_map + end):
            local.unwritten += load_u8(place)
            store_u8(place, 0)


@compiled
def report_unwritten(m, pc, warp, number, registers, a, bias, mask, size, initialised):
    lanes = 0
    first = 0
    unused = instruction_at(m.code, pc).aux >> UNUSED_SHIFT if instruction_at(m.code, pc).op < N_MEMORY else 0
    for lane in set_bits(mask):
        offset = load_i64(registers + a + 8 * lane) + bias
        if not was_written(initialised, offset, size, unused):
            if lanes == 0:
                first = offset
            lanes |= 1 << lane
    if lanes:
        record_finding(
            m.report_entry,
            m.address,
            (UNINITIALIZED, pc, warp, lanes, -1, -1),
            ((number << SEGMENT_SHIFT) | first, 0, size, number, 0),
        )
