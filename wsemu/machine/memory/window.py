"""Accesses to shared memory when the CTAs of a group have their shared memories in one segment, in compiled code.

Only launches whose groups have several CTAs run this: there, `access_in_group` replaces `scheduler.access`.
"""

from __future__ import annotations

from wsemu.machine.lowering import compiled, set_bits
from wsemu.machine.memory.bounds import OUT_OF_BOUNDS
from wsemu.machine.records import call, instruction_at, machine_at, record_finding
from wsemu.machine.scalars import load_i64, store_u8
from wsemu.machine.state import OUTSIDE, UNUSED_SHIFT
from wsemu.machine.sync.peers import reach
from wsemu.model.grid import FARTHEST
from wsemu.model.isa import ADDRESS_WRAPPED, FIRST_STORE, OFFSET_MASK, OWN_SHARED, SEGMENT_SHIFT, SHARED


@compiled
def is_in_window(m, offset, size):
    """Return whether bytes of the segment of all shared memories belong to one CTA, which may be accessed from the
    current one."""
    if m.members == 1:
        return True
    inside = offset & ((1 << m.window) - 1)
    own = (offset >> m.window) == m.member
    return (own or m.clusters != 0) and inside + size <= m.shared_limit


@compiled
def cast_to(m, address):
    """Return an address, or the same location in the CTA to which a copy goes instead.

    If that CTA does not exist, the returned address is out of bounds.
    """
    if m.cast < 0 or (m.members == 1 and m.cast == 0):
        return address
    if m.members == 1:
        return SHARED << SEGMENT_SHIFT | 1 << FARTHEST
    inside = address & ((1 << m.window) - 1)
    return SHARED << SEGMENT_SHIFT | m.cast << m.window | inside


@compiled
def strays(m, registers, i, mask, size):
    """Return the lanes whose address is in shared memory, but outside every CTA's window, or outside the CTA's own
    window if the instruction requires that."""
    found = 0
    own = (i.aux >> UNUSED_SHIFT) & OWN_SHARED
    for lane in set_bits(mask):
        address = (load_i64(registers + i.a + 8 * lane) + i.imm) & ~ADDRESS_WRAPPED
        if address >> SEGMENT_SHIFT != SHARED:
            continue
        far = own and (address & OFFSET_MASK) >> m.window != m.member
        if far or not is_in_window(m, address & OFFSET_MASK, size):
            found |= 1 << lane
    return found


@compiled
def leave_out(m, w, pc, registers, i, lanes, size):
    """Report accesses that are left out; their loads return 0."""
    for lane in set_bits(lanes):
        address = (load_i64(registers + i.a + 8 * lane) + i.imm) & ~ADDRESS_WRAPPED
        record_finding(
            m.report_entry,
            m.address,
            (OUT_OF_BOUNDS, pc, w, 1 << lane, -1, -1),
            (address, OUTSIDE, size, SHARED, m.shared_limit),
        )
        if i.op < FIRST_STORE:
            n = (i.aux >> 8) & 255
            each = size // n
            for j in range(n):
                for q in range(each):
                    store_u8(registers + i.d + 256 * j + lane * each + q, 0)


@compiled
def member_lanes(m, registers, i, mask, member):
    """The lanes of an access that goes to the shared memory of a CTA."""
    lanes = 0
    for lane in set_bits(mask):
        address = (load_i64(registers + i.a + 8 * lane) + i.imm) & ~ADDRESS_WRAPPED
        if address >> SEGMENT_SHIFT == SHARED and (address & OFFSET_MASK) >> m.window == member:
            lanes |= 1 << lane
    return lanes


@compiled
def goes_far(m, registers, i, mask):
    """Return whether a lane accesses the shared memory of another CTA."""
    for lane in set_bits(mask):
        address = (load_i64(registers + i.a + 8 * lane) + i.imm) & ~ADDRESS_WRAPPED
        if address >> SEGMENT_SHIFT == SHARED and (address & OFFSET_MASK) >> m.window != m.member:
            return 1
    return 0


@compiled
def reach_others(m, w, pc, registers, i, mask):
    """Note that an access reaches shared memory of other CTAs."""
    for member in range(m.members):
        lanes = member_lanes(m, registers, i, mask, member)
        if lanes and member != m.member and m.asynchronous:
            reach(m, w, pc, member, lanes, 0, True)


def access_in_group(address, w, pc, registers, mask):
    """Execute the access at pc as `scheduler.access` does, without the lanes that leave their CTA's shared memory."""
    m = machine_at(address, 0)
    i = instruction_at(m.code, pc)
    size = i.aux & 255
    bad = strays(m, registers, i, mask, size)
    if bad and m.resumes == 0:
        leave_out(m, w, pc, registers, i, bad, size)
    if mask == bad:
        return 0
    if m.clusters:
        m.remote = goes_far(m, registers, i, mask & ~bad)
    if m.remote and m.resumes == 0:
        reach_others(m, w, pc, registers, i, mask & ~bad)
    status = call(m.window_entry, address, w, pc, registers, mask & ~bad)
    m.remote = 0
    return status
