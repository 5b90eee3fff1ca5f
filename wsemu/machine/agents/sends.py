"""Values that go to another CTA by themselves, in compiled code: `st.async`, `red.async`."""

from __future__ import annotations

from wsemu.machine.agents.agents import new_agent, room
from wsemu.machine.agents.copies import COPIED, access_cell, lane_address, segment_number
from wsemu.machine.agents.loads import names_mbarriers
from wsemu.machine.agents.ranges import OTHERS, host_place, judge_written, note_written, prepare, touch_range
from wsemu.machine.agents.reductions import combine_elements
from wsemu.machine.lowering import compiled, set_bits
from wsemu.machine.memory.cell_bits import ATOMIC_BIT, GENERIC
from wsemu.machine.scalars import load_i64, load_u32, lowest_bit, popcount, store_i64, store_u32
from wsemu.machine.state import COPIES, DONE, UNUSED_SHIFT
from wsemu.machine.sync.clobber import clobbers, objects_live
from wsemu.machine.sync.events import log, report_failure
from wsemu.machine.sync.mbarrier import credit, find_credited
from wsemu.machine.sync.peers import reach
from wsemu.model.isa import ADDRESS_WRAPPED, ATOMIC, OFFSET_MASK, WRITE, opcodes

STORE64, REDUCE, REDUCE64 = opcodes("async", "store.b64", "reduce.b32", "reduce.b64")


@compiled
def send_goal(m, i):
    """Return the location in shared memory that a value is allowed to be sent to."""
    return OTHERS if i.op >= REDUCE or m.clusters == 0 else 1


@compiled
def execute(m, w, pc, registers, i, mask):
    """st.async, red.async.  Status."""
    size = 8 if i.op in (STORE64, REDUCE64) else 4
    status = room(m, popcount(mask))
    rest = mask
    while rest and status == DONE:  # before anything is done
        to = lane_address(registers, i.a, 0, lowest_bit(rest))
        if host_place(m, w, pc, lowest_bit(rest), to, size, size, True, send_goal(m, i), False):
            status = prepare(m, pc, to, size, True)
        rest &= rest - 1
    if status != DONE:
        return status
    m.serial += 1
    if not names_mbarriers(m, w, pc, registers, i, i.b, mask):
        return report_failure(m, w, pc)
    for lane in set_bits(mask):
        if find_credited(m, w, pc, registers, i.b, lane, -1) < 0:
            return report_failure(m, w, pc)
    for lane in set_bits(mask):
        if not send(m, w, pc, registers, i, lane, size):
            return report_failure(m, w, pc)
    return DONE


@compiled
def send(m, w, pc, registers, i, lane, size):
    """A value of one lane.  Send a value; return whether the hardware continues."""
    to = lane_address(registers, i.a, 0, lane)
    host = host_place(m, w, pc, lane, to, size, size, True, send_goal(m, i), True)
    number = 0
    bit = 1 << lane
    if m.clocks:
        place = to & ~ADDRESS_WRAPPED
        number = new_agent(m, w, lane, pc, COPIES, place, size if host else 0)
    if host:
        log(m, COPIED, w, pc, to & ~ADDRESS_WRAPPED, -1, bit, size)
        if objects_live(m):
            kind = ATOMIC if i.op >= REDUCE else WRITE
            clobbers(m, w, pc, registers, i.a, 0, bit, size, 0, kind)
        if i.op >= REDUCE:
            judge_written(m, w, pc, lane, segment_number(to), to & OFFSET_MASK, size)
        if m.clocks:
            base = access_cell(number, GENERIC + w, lane, pc)
            if i.op >= REDUCE:
                touch_range(m, w, lane, pc, to, size, ATOMIC, base | ATOMIC_BIT, False)
            else:
                touch_range(m, w, lane, pc, to, size, WRITE, base, False)
        note_written(m, segment_number(to), to & OFFSET_MASK, size)
        if size == 8:
            value = load_i64(registers + i.d + 8 * lane)
            store_i64(host, combine_elements(i.aux >> UNUSED_SHIFT, load_i64(host), value) if i.op >= REDUCE else value)
        else:
            value = load_u32(registers + i.d + 4 * lane)
            store_u32(host, combine_elements(i.aux >> UNUSED_SHIFT, load_u32(host), value) if i.op >= REDUCE else value)
        if m.clusters:
            reach(m, w, pc, (to & OFFSET_MASK) >> m.window, bit, number, True)
    return credit(m, w, pc, find_credited(m, w, pc, registers, i.b, lane, -1), lane, size, number)
