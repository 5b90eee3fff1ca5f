"""The usual accesses of whole warps, whose lanes are contiguous or have one address: their checks, without the
transfer.

Each function checks, records and counts an access, and returns the host address of the first lane's bytes. If an access
needs a closer look, it does nothing and returns 0, and `scheduler.access` performs the access.
"""

from __future__ import annotations

from wsemu.machine.lowering import compiled
from wsemu.machine.memory.bounds import offset_in_local
from wsemu.machine.memory.cell_bits import HIGH_SHIFT, LOW_SHIFT
from wsemu.machine.memory.costs import shared_cost, weigh
from wsemu.machine.memory.lane_access import BAD, SAME, SCATTERED, UNIT, lane_pattern, matches_steps, simple_pattern
from wsemu.machine.memory.plans import dearer, judged_here, make_planned, make_spread, plan_steps
from wsemu.machine.memory.read_only import note_lanes
from wsemu.machine.memory.read_only import note_range as note_read_only
from wsemu.machine.memory.shadow import (
    CONTIGUOUS,
    FULL,
    floor_of,
    note_range,
    now,
    read_one,
    touch,
    touch_side_by_side,
)
from wsemu.machine.memory.shadow_cells import unit
from wsemu.machine.records import access_at, call, machine_at, plan_at, plan_due_at, segment_at
from wsemu.machine.scalars import (
    load_i64,
    load_u8,
    load_u32,
    lowest_bit,
    popcount,
    set_bytes,
    store_i64,
    store_u32,
    unset_bytes,
)
from wsemu.machine.scheduler import OFTEN
from wsemu.machine.state import READ_SO_FAR, UNTRACKED
from wsemu.machine.sync.clobber import near_objects, row_near_objects
from wsemu.model.isa import FIRST_ARRAY, LANES, LOCAL, READ, SEGMENT_SHIFT, SHARED, WRITE


@compiled
def count_execution(row, number, lanes, cost, ideal):
    """Count one more execution by this number of lanes, and its cost."""
    row.executions += 1
    row.lanes += lanes
    if number == SHARED:
        row.shared += cost
        row.ideal_shared += ideal
    elif number != LOCAL:
        row.sectors += cost
        row.ideal_sectors += ideal


@compiled
def some_unset(place, size):
    """Return whether contiguous lanes access an uninitialized byte."""
    for piece in range(size):  # noqa: SIM110 (a generator does not compile)
        if unset_bytes(place + piece * LANES):
            return True
    return False


@compiled
def note_set(segment, place, size):
    """Mark the bytes that contiguous lanes access as initialized."""
    new = 0
    for piece in range(size):
        unset = unset_bytes(place + piece * LANES)
        if unset:
            set_bytes(place + piece * LANES)
            new += unset
    segment.unwritten -= new
    if segment.unwritten == 0:
        segment.initialised = 0


def side_by_side(address, w, pc, first, log_size, kind):
    """Check an access of contiguous lanes, the first of which accesses address `first`."""
    m = machine_at(address, 0)
    number = first >> SEGMENT_SHIFT
    if number < SHARED or number >= m.segment_count:
        return 0
    segment = segment_at(m.segments, number)
    size = 1 << log_size
    offset = first - (number << SEGMENT_SHIFT)
    if offset + (size << 5) > segment.bytes or offset & (size - 1):
        return 0
    if number == LOCAL and (offset or size != m.thread_bytes):
        return 0
    if number == SHARED and near_objects(m, offset, offset + (size << 5)):
        return 0
    row = access_at(m.accesses, pc)
    if segment.kind & row.forbids:
        return 0
    ideal = size if number > LOCAL else (size + 3) >> 2
    cost = ideal + (number > LOCAL and first & 31 != 0)
    if cost > ideal and dearer(m, row, number, cost):
        return 0
    if segment.initialised and kind == READ and some_unset(segment.initialised + offset, size):
        return 0
    if segment.tracked > (READ_SO_FAR if kind == READ else UNTRACKED):
        log = log_size - segment.grain
        if segment.grain < 0 or log < 0 or not judged_here(m, segment, segment.grain):
            return 0
        cell = offset >> segment.grain
        if not note_range(segment, cell, LANES << log):
            return 0
        writes, reads = segment.writes + 8 * cell, segment.reads + 8 * cell
        base, floor = now(m, w, pc), floor_of(m, number)
        if not touch_side_by_side(m, w, writes, reads, kind, base, floor, log):
            return 0
    if segment.initialised and kind == WRITE:
        note_set(segment, segment.initialised + offset, size)
    m.serial += 1
    count_execution(row, number, LANES, cost, ideal)
    return segment.host + offset


@compiled
def some_word_unset(place, end):
    """Return whether one of the bytes of some words is uninitialized."""
    while place < end:
        if load_u32(place) & EACH_BYTE != EACH_BYTE:
            return True
        place += 4
    return False


@compiled
def note_words(segment, place, end):
    """Mark the bytes of some words as initialized."""
    new = 0
    while place < end:
        new += 4 - popcount(load_u32(place) & EACH_BYTE)
        store_u32(place, EACH_BYTE)
        place += 4
    segment.unwritten -= new
    if segment.unwritten == 0:
        segment.initialised = 0


@compiled
def touch_some(m, w, pc, segment, cell, lanes, kind, floor):
    """Touch the cells of contiguous lanes, of which the first one has `cell`; a single lane counts as lanes at one
    address."""
    lane, base = lowest_bit(lanes), now(m, w, pc)
    if kind == READ and lanes == 1 << lane:
        new = base | lane << LOW_SHIFT | lane << HIGH_SHIFT
        if read_one(m, w, segment.writes + 8 * cell, segment.reads + 8 * cell, new, floor):
            return
    at, zero = 8 * (cell - lane), 0
    touch(
        m, w, pc, segment.writes + at, segment.reads + at, lanes, kind, base, floor, CONTIGUOUS,
        zero, zero, zero, zero,
    )  # fmt: skip


def some_side_by_side(address, w, pc, place, imm, lanes, kind):
    """Check an access of four bytes each by some contiguous lanes, whose addresses are at `place`.

    Return the host address of the first lane's bytes, even if the first lane does not perform the access.
    """
    m = machine_at(address, 0)
    lane = lowest_bit(lanes)
    n = popcount(lanes)
    first = load_i64(place + 8 * lane) + imm
    number = first >> SEGMENT_SHIFT
    if lanes >> lane != (1 << n) - 1 or number < SHARED or number >= m.segment_count:
        return 0
    segment = segment_at(m.segments, number)
    offset = first - (number << SEGMENT_SHIFT)
    if number == LOCAL:
        offset = offset_in_local(m, offset, lane, 4, kind == WRITE) if n == 1 else -1
        if offset < 0:
            return 0
    end = offset + 4 * n
    if unit(place, lanes, lane, 2) == 0 or end > segment.bytes or offset & 3:
        return 0
    if number == SHARED and near_objects(m, offset, end):
        return 0
    row = access_at(m.accesses, pc)
    if segment.kind & row.forbids:
        return 0
    cost = ideal = 1
    if number > LOCAL:
        cost, ideal = ((end - 1) >> 5) - (offset >> 5) + 1, (4 * n + 31) >> 5
    if cost > ideal and dearer(m, row, number, cost):
        return 0
    written = segment.initialised
    if written and kind == READ and some_word_unset(written + offset, written + end):
        return 0
    judges = segment.tracked > (READ_SO_FAR if kind == READ else UNTRACKED)
    cell = offset >> 2
    if judges and not (judged_here(m, segment, 2) and note_range(segment, cell, n)):
        return 0
    m.serial += 1
    if judges:
        touch_some(m, w, pc, segment, cell, lanes, kind, floor_of(m, number))
    if written and kind == WRITE:
        note_words(segment, written + offset, written + end)
    count_execution(row, number, n, cost, ideal)
    return segment.host + offset - 4 * lane


def all_at_one(address, w, pc, first, log_size):
    """Check a load by all lanes from the address `first`."""
    m = machine_at(address, 0)
    number = first >> SEGMENT_SHIFT
    if number < SHARED or number == LOCAL or number >= m.segment_count:
        return 0
    segment = segment_at(m.segments, number)
    size = 1 << log_size
    offset = first - (number << SEGMENT_SHIFT)
    if offset > segment.bytes - size or offset & (size - 1):
        return 0
    if number == SHARED and near_objects(m, offset, offset + size):
        return 0
    row = access_at(m.accesses, pc)
    if segment.kind & row.forbids:
        return 0
    cost = ideal = 1
    if size > 4 and number == SHARED:
        cost, ideal = shared_cost(m, 0, 0, FULL, SAME, size, False)
        if cost > ideal:
            return 0
    if segment.initialised:
        for q in range(size):
            if load_u8(segment.initialised + offset + q) == 0:
                return 0
    if segment.tracked > READ_SO_FAR:
        log = log_size - segment.grain
        if segment.grain < 0 or log < 0 or not judged_here(m, segment, segment.grain):
            return 0
        cell = offset >> segment.grain
        if not note_range(segment, cell, 1 << log):
            return 0
        new, floor = now(m, w, pc) | (LANES - 1) << HIGH_SHIFT, floor_of(m, number)
        for q in range(1 << log):  # repeating this has no further effect, so it may stop in between
            at = 8 * (cell + q)
            if not read_one(m, w, segment.writes + at, segment.reads + at, new, floor):
                return 0
    m.serial += 1
    count_execution(row, number, LANES, cost, ideal)
    return segment.host + offset


@compiled
def load_divergent(m, pc, place, imm, size):
    """Check a load by all lanes, with any addresses, from a writable array without checks of its contents."""
    first = load_i64(place) + imm
    number = first >> SEGMENT_SHIFT
    if number < FIRST_ARRAY or number >= m.segment_count:
        return 0
    segment = segment_at(m.segments, number)
    if segment.tracked > READ_SO_FAR or segment.initialised or segment.bytes < size:
        return 0
    bias, all_lanes = imm - (number << SEGMENT_SHIFT), FULL
    pattern = lane_pattern(place, 0, all_lanes, bias, segment.bytes - size, size)
    if pattern == BAD:
        return 0
    row = access_at(m.accesses, pc)
    if segment.kind & row.forbids:
        return 0
    cost, ideal = weigh(m, row, place, bias, all_lanes, pattern, size, False, False)
    if cost > ideal and dearer(m, row, number, cost):
        return 0
    m.serial += 1
    count_execution(row, number, LANES, cost, ideal)
    return segment.host + first - (number << SEGMENT_SHIFT)


def any_way(address, w, pc, place, imm, shape):
    """Check an access by all lanes, whose addresses are at `place`, to which `imm` is added.

    Return the host address of the first lane's bytes, and from bit HOW on the pattern of the lanes. `shape` has log2 of
    the bytes of a lane; from bit KIND on READ or WRITE; and from bit KNOWN on, if the numbers at `place` are constants,
    1 more than their pattern.
    """
    m = machine_at(address, 0)
    row = access_at(m.accesses, pc)
    due = plan_due_at(m.plans_due, row.pattern)
    log_size, kind, known = shape & 255, shape >> KIND & 1, shape >> KNOWN
    if row_near_objects(m, place, imm, FULL, 1 << log_size):
        return 0
    first = load_i64(place)
    if due.ready:
        plan = plan_at(m.plans, row.pattern)
        if (known and plan.of == place) or matches_steps(place, first, plan_steps(plan), FULL):
            if known:
                plan.of = place
            host = make_planned(m, w, pc, plan, first + imm, log_size, kind)
            if host:
                return host | plan.how << HOW
    how = known - 1 if known else simple_pattern(place, 0, FULL, log_size)
    host = 0
    if how == UNIT:
        host = side_by_side_here(address, w, pc, first + imm, log_size, kind)
    elif how == SAME and kind == READ:
        host = all_at_one_here(address, w, pc, first + imm, log_size)
    elif how == SCATTERED and log_size == 2:
        host = make_spread(m, w, pc, place, imm, kind)
    if how == SCATTERED and host == 0 and m.planned:
        due.misses += 1
        if due.misses > OFTEN * (1 + due.made * due.made):
            call(m.plan_entry, m.address, pc, place, imm, shape & ((1 << KNOWN) - 1))
    if how == SCATTERED and host == 0 and kind == READ:
        host = load_divergent(m, pc, place, imm, 1 << log_size)
    return host | how << HOW if host else 0


def noted_range(address, first, extent, bit):
    """Mark the bytes of an access in programs with loads through the read-only cache, see memory/read_only.py.

    The lanes are contiguous from `first` on, or have this address.
    """
    note_read_only(machine_at(address, 0), first, extent, bit)
    return 0


def noted_lanes(address, place, bias, size, bit):
    """Mark what scattered lanes have touched in programs with loads through the read-only cache."""
    note_lanes(machine_at(address, 0), place, bias, size, bit)
    return 0


def since_last(address, w, pc, host):
    """Return the distance of this load by a warp, at a host address, from the warp's previous load by the
    instruction."""
    m = machine_at(address, 0)
    place = m.ahead + 8 * (access_at(m.accesses, pc).pattern * m.warp_count + w)
    step = host - load_i64(place)
    store_i64(place, host)
    return step


@compiled
def all_lanes(m, w, pc, place, imm, shape):
    """Call `any_way`, which is compiled as a part of its own."""
    return call(m.any_way_entry, m.address, w, pc, place, imm, shape)


@compiled
def some_lanes(m, w, pc, place, imm, lanes, kind):
    """Call `some_side_by_side`, which is compiled as a part of its own."""
    return call(m.some_entry, m.address, w, pc, place, imm, lanes, kind)


HOW = 56
"""bit above all host addresses"""
HOST = (1 << HOW) - 1
KIND, KNOWN = 8, 16
EACH_BYTE = 0x01010101
side_by_side_here, all_at_one_here = compiled(side_by_side), compiled(all_at_one)
