"""Recorded accesses to shared memory (see `sections` and `periods`): count repetitions, or check them after all."""

from __future__ import annotations

from wsemu.machine.lowering import compiled
from wsemu.machine.memory.lane_access import SCATTERED, UNIT
from wsemu.machine.records import access_at, call, foreseen_at, instruction_at, noted_at, segment_at
from wsemu.machine.scalars import lowest_bit
from wsemu.machine.state import FORESEEN, NOTING, NOWHERE, TRACKED
from wsemu.machine.tier.accesses import HOW, KIND, all_lanes, some_lanes
from wsemu.machine.tier.section_tables import BY_VM, PC_SHIFT, PCS, WARP_SHIFT
from wsemu.model.isa import LANES, SEGMENT_SHIFT, SHARED

FULL = (1 << LANES) - 1
FORESEEN_BYTES = FORESEEN.itemsize


@compiled
def start_noting(m, known, first, room):
    """Begin to record accesses, in up to `room` bytes from `first` on, with the moments and read sets that they use."""
    m.section = NOTING
    known.end = first
    known.limit = first + room
    known.low = NOWHERE
    known.high = 0
    known.moments = m.moment_count
    known.sets = m.set_count
    known.elements = m.element_count


@compiled
def number_of(known, one):
    """Return the number of the recorded access at a host address."""
    return (one - known.foreseen) // FORESEEN_BYTES


@compiled
def judge_access(m, w, pc, steps, first, shape, lanes):
    """Perform the checks of an access, without the transfer.  Return the host address of its first lane's bytes, with
    the lane pattern from bit HOW on; 0 if the VM has to continue."""
    if lanes == FULL:
        return all_lanes(m, w, pc, steps, first, shape)
    lane = lowest_bit(lanes)
    host = some_lanes(m, w, pc, steps, first, lanes, shape >> KIND & 1)
    return host + 4 * lane | UNIT << HOW if host else host


@compiled
def repeat_count(m, known, one, often):
    """Add the recorded costs of an access to the counters, `often` times."""
    noted = noted_at(known.noted, number_of(known, one))
    key = foreseen_at(one, 0).key
    row = access_at(m.accesses, key >> PC_SHIFT & PCS)
    row.executions += often
    row.lanes += often * noted.lanes
    row.shared += often * noted.shared
    row.ideal_shared += often * noted.ideal_shared


@compiled
def judge_noted(m, known, one):
    """Check an access that was only compared when it was performed."""
    noted, made = noted_at(known.noted, number_of(known, one)), foreseen_at(one, 0)
    w, pc, lanes = (made.key & ~BY_VM) >> WARP_SHIFT, made.key >> PC_SHIFT & PCS, made.key & FULL
    counted = made.key & BY_VM and m.beat  # see `periods`: the VM performed it, and only judged it
    if not counted and judge_access(m, w, pc, noted.steps, made.first, noted.shape, lanes):
        return
    m.serial += 1
    if not counted:
        repeat_count(m, known, one, 1)
    addresses = noted.steps - instruction_at(m.code, pc).a  # the position of its registers
    bias = made.first - (SHARED << SEGMENT_SHIFT)
    if segment_at(m.segments, SHARED).tracked != TRACKED:  # races are not checked
        return
    if call(m.shadow_entry, m.address, w, pc, addresses, bias, lanes, SCATTERED, SHARED):
        m.unnamed = 1  # this needs the host: the launch restarts without sections
        m.budget = 0
