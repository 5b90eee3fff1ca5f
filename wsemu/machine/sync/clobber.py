"""Checks of accesses to the bytes of live mbarriers, in compiled code: `mbarrier-clobber`.

Only programs with asynchronous operations run these checks: there, `access_guarded` replaces `scheduler.access`.
"""

from __future__ import annotations

from wsemu.machine.lowering import compiled, set_bits
from wsemu.machine.memory.shadow_cells import highest_of, lowest_of
from wsemu.machine.records import access_at, call, instruction_at, machine_at, mbarrier_at, record_finding, segment_at
from wsemu.machine.scalars import load_i64, load_u32, lowest_bit
from wsemu.model.codes import CODE_NUMBERS
from wsemu.model.isa import (
    ADDRESS_WRAPPED,
    ATOMIC,
    FIRST_STORE,
    IN_SHARED,
    N_CONTROL,
    N_MEMORY,
    OFFSET_MASK,
    READ,
    SEGMENT_SHIFT,
    SHARED,
    WRITE,
    opcodes,
)

CLOBBER = CODE_NUMBERS["mbarrier-clobber"]
(ZERO,) = opcodes("bulk", "zero")


@compiled
def objects_live(m):
    """Return whether the CTA has live mbarriers."""
    return m.mbarrier_count != 0


@compiled
def find_touched(m, address, size):
    """Return the number, from 1, of the lowest live mbarrier that shares bytes with a range; 0: none."""
    if address & ~ADDRESS_WRAPPED & ~OFFSET_MASK != SHARED << SEGMENT_SHIFT or size == 0:
        return 0
    offset = address & OFFSET_MASK
    low, high = max(offset >> 3, m.mbarrier_low), min((offset + size - 1) >> 3, m.mbarrier_high)
    for at in range(low, high + 1):
        number = load_i64(m.mbarrier_index + 8 * at)
        if number and mbarrier_at(m.mbarriers, number - 1).live:
            return number
    return 0


@compiled
def clobbers(m, w, pc, registers, row, imm, mask, size, sizes, kind):
    """Report an access by some lanes to bytes of live mbarriers.

    `row` has the lanes' addresses; `sizes`, if not 0, the row with the bytes that each lane accesses.
    """
    lanes, length = 0, size
    for lane in set_bits(mask):
        own = load_u32(registers + sizes + 4 * lane) if sizes else size
        if find_touched(m, load_i64(registers + row + 8 * lane) + imm, own):
            if lanes == 0:
                length = own
            lanes |= 1 << lane
    if lanes == 0:
        return
    address = (load_i64(registers + row + 8 * lowest_bit(lanes)) + imm) & ~ADDRESS_WRAPPED
    b = mbarrier_at(m.mbarriers, find_touched(m, address, length) - 1)
    start = (SHARED << SEGMENT_SHIFT) | b.word << 3
    op = instruction_at(m.code, pc).op
    record_finding(
        m.report_entry,
        m.address,
        (CLOBBER, pc, w, lanes, -1, -1),
        (start, max(start, address), kind, size, op >= N_CONTROL and op != ZERO),
    )


@compiled
def good_lanes(m, registers, i, mask, size):
    """Return the lanes that access shared memory without an error."""
    good = 0
    for lane in set_bits(mask):
        address = (load_i64(registers + i.a + 8 * lane) + i.imm) & ~ADDRESS_WRAPPED
        offset = address & OFFSET_MASK
        if address >> SEGMENT_SHIFT == SHARED and offset <= segment_at(m.segments, SHARED).bytes - size:
            good |= (offset & (size - 1) == 0) << lane
    return good


@compiled
def near_objects(m, low, end):
    """Return whether shared memory from offset `low` to before `end` may contain bytes of the CTA's mbarriers."""
    return m.mbarrier_count != 0 and low >> 3 <= m.mbarrier_high and (end - 1) >> 3 >= m.mbarrier_low


@compiled
def row_near_objects(m, place, imm, mask, size):
    """Return whether an access may touch bytes of mbarriers, judged by the lowest and the highest of its addresses at
    `place`."""
    if m.mbarrier_count == 0:
        return False
    lane, first = lowest_bit(mask), SHARED << SEGMENT_SHIFT
    low, high = lowest_of(place, mask, lane), highest_of(place, mask, lane)
    if min(low, imm) <= -ADDRESS_WRAPPED or max(high, imm) >= ADDRESS_WRAPPED:  # sums could wrap around
        return True
    low, high = low + imm, high + imm + size
    return low < 0 or high > ADDRESS_WRAPPED or near_objects(m, low - first, high - first)


def access_guarded(address, w, pc, registers, mask):
    """Execute the access at pc as `scheduler.access` does, after reporting bytes of mbarriers that it touches."""
    m = machine_at(address, 0)
    i = instruction_at(m.code, pc)
    shared = access_at(m.accesses, pc).forbids & IN_SHARED == 0
    if shared and m.resumes == 0 and row_near_objects(m, registers + i.a, i.imm, mask, i.aux & 255):
        kind = ATOMIC if i.op >= N_MEMORY else WRITE if i.op >= FIRST_STORE else READ
        size = i.aux & 255
        clobbers(m, w, pc, registers, i.a, i.imm, good_lanes(m, registers, i, mask, size), size, 0, kind)
    return call(m.guarded_entry, address, w, pc, registers, mask)
