"""Ranges of bytes that one lane, or one of its agents, accesses: bounds, initialization and races.

Races are checked like in `memory/shadow.py`, but for 32 cells at once. Whatever is not clearly ordered is marked, and a
second run decides (`memory/lane_order.py`). An agent's read does not remove other reads from a cell, because a thread
that has observed the agent need not have observed them.
"""

from __future__ import annotations

from wsemu.machine.lowering import compiled
from wsemu.machine.memory.bounds import MISALIGNED, OUT_OF_BOUNDS, UNINITIALIZED, is_in_gap
from wsemu.machine.memory.cell_bits import (
    ACTORS,
    ANYONE,
    ATOMIC_BIT,
    BULK,
    BUT_LANES,
    GENERIC,
    HIGH_SHIFT,
    INTERVAL_SHIFT,
    INTERVALS,
    LOW_SHIFT,
    MAX_INSTRUCTIONS,
    READERS,
    SET,
    WARP_SHIFT,
    WHEN,
)
from wsemu.machine.memory.readers import written_out
from wsemu.machine.memory.shadow import (
    RACE,
    add_element,
    floor_of,
    loads,
    mark,
    note_range,
    record_conflict,
    set_number,
    width,
)
from wsemu.machine.memory.shadow_cells import least, put, same_key, uniform
from wsemu.machine.memory.window import is_in_window
from wsemu.machine.records import call, memo_at, record_finding, segment_at, warp_at
from wsemu.machine.scalars import load_i64, load_u8, lowest_bit, set_bytes, store_i64, store_u8, unset_bytes
from wsemu.machine.state import (
    BAD_INDEX,
    DONE,
    GAP,
    OUTSIDE,
    READ_ONLY,
    READ_SO_FAR,
    REFINE,
    SWEEP,
    TRACKED,
    UNTRACKED,
    WRAPPED,
    WRITTEN,
)
from wsemu.machine.sync.lane_clocks import agent_known, agent_relied, async_visible_offset, lane_row, there
from wsemu.model.isa import (
    ADDRESS_OUT,
    ADDRESS_WRAPPED,
    ATOMIC,
    FIRST_ARRAY,
    IN_PIECES,
    INDEX_BIAS,
    LANES,
    OFFSET_MASK,
    READ,
    SEGMENT_SHIFT,
    SHARED,
    WRITE,
)

FULL = (1 << LANES) - 1
MANY = 40
"""maximum elements of a set before the readers of a cell are no longer recorded"""
OWN, OTHERS = 2, 3
"""required location of a range in shared memory: in the CTA's own, or in another one's"""
FEW_SETS = 900
"""maximum sets that one range may create"""


# -- where it lies -----------------------------------------------------------------------------------------------------


@compiled
def outside(m, w, pc, lane, address, what, size, number, limit, report):
    if report:
        bit = 1 << lane
        record_finding(
            m.report_entry, m.address, (OUT_OF_BOUNDS, pc, w, bit, -1, -1), (address, what, size, number, limit)
        )
    return 0


@compiled
def is_own(m, offset):
    """Return whether a location in shared memory is the current CTA's."""
    return m.members == 1 or offset >> m.window == m.member


@compiled
def host_place(m, w, pc, lane, address, size, alignment, writes, shared, report):
    """Return the host address of a range of bytes; if it must not be accessed, report it and return 0.

    The range must be in shared memory (`shared`: of any CTA, OWN or OTHERS), or else in memory that is not private to a
    thread or CTA.
    """
    if address & ADDRESS_OUT and address >= 0:
        index = ((address >> SEGMENT_SHIFT) & (2 * INDEX_BIAS - 1)) - INDEX_BIAS
        return outside(m, w, pc, lane, index, BAD_INDEX, size, 0, 0, report)
    if address < 0:
        return outside(m, w, pc, lane, address, OUTSIDE, size, 0, 0, report)
    flag = address & ADDRESS_WRAPPED
    address ^= flag
    number = address >> SEGMENT_SHIFT
    offset = address & OFFSET_MASK
    if number < SHARED or number >= m.segment_count:
        return outside(m, w, pc, lane, address, OUTSIDE, size, number, 0, report)
    segment = segment_at(m.segments, number)
    if number == SHARED and not is_in_window(m, offset, size):
        return outside(m, w, pc, lane, address, OUTSIDE, size, number, m.shared_limit, report)
    if offset > segment.bytes - size or (number != SHARED if shared else number < FIRST_ARRAY):
        return outside(m, w, pc, lane, address, OUTSIDE, size, number, segment.bytes, report)
    if segment.kind & IN_PIECES and is_in_gap(segment, offset, size):
        return outside(m, w, pc, lane, address, OUTSIDE, size, number, segment.bytes, report)
    if shared >= OWN and is_own(m, offset) != (shared == OWN):
        return outside(m, w, pc, lane, address, OUTSIDE, size, number, m.shared_limit, report)
    if offset & (alignment - 1):
        if report:
            bit = 1 << lane
            record_finding(
                m.report_entry, m.address, (MISALIGNED, pc, w, bit, -1, -1), (address, alignment, size, number, 0)
            )
        return 0
    if writes and not segment.writable:
        return outside(m, w, pc, lane, address, READ_ONLY, size, number, segment.bytes, report)
    if writes and is_in_gap(segment, offset, size):
        outside(m, w, pc, lane, address, GAP, size, number, segment.bytes, report)
    if flag:
        outside(m, w, pc, lane, address, WRAPPED, size, number, segment.bytes, report)
    return segment.host + offset


@compiled
def is_tracked(m, number, writes):
    return m.clocks and segment_at(m.segments, number).tracked > (UNTRACKED if writes else READ_SO_FAR)


@compiled
def prepare(m, pc, address, size, writes):
    """Return DONE if shadow memory is ready for a range, besides those that were requested since `room`."""
    address &= ~ADDRESS_WRAPPED
    number = address >> SEGMENT_SHIFT
    if size == 0 or not is_tracked(m, number, writes):
        return DONE
    segment = segment_at(m.segments, number)
    if segment.tracked != TRACKED:
        m.fault_pc = pc
        m.fault_warp = number
        return WRITTEN
    all_bits = address | size | 16
    chunk = all_bits & -all_bits
    if segment.grain < 0 or chunk < 1 << segment.grain:
        m.fault_pc = pc
        m.fault_warp = number
        m.wanted = chunk
        return REFINE
    if segment.watched:
        m.record_needs += (size >> segment.watched_grain) + 2
        if m.record_count + m.record_needs > m.record_room:
            return SWEEP
    if m.set_count > m.set_room or m.element_count > m.element_room or m.record_count > m.record_room:
        return SWEEP
    return DONE


# -- what was written --------------------------------------------------------------------------------------------------


@compiled
def note_written(m, number, offset, size):
    segment = segment_at(m.segments, number)
    initialised = segment.initialised
    if initialised == 0:
        return
    new = 0
    q = 0
    while q + LANES <= size:
        unset = unset_bytes(initialised + offset + q)
        if unset:
            set_bytes(initialised + offset + q)
            new += unset
        q += LANES
    while q < size:
        new += load_u8(initialised + offset + q) == 0
        store_u8(initialised + offset + q, 1)
        q += 1
    segment.unwritten -= new
    if segment.unwritten == 0:
        segment.initialised = 0


@compiled
def judge_written(m, w, pc, lane, number, offset, size):
    """Report a range with uninitialized bytes."""
    judge_some(m, w, pc, lane, number, offset, size, 0xFFFF)


@compiled
def judge_some(m, w, pc, lane, number, offset, size, bytes_):
    """Report pieces of 16 bytes, those with a bit in `bytes_`, that have uninitialized bytes."""
    initialised = segment_at(m.segments, number).initialised
    if initialised == 0:
        return
    for q in range(size):
        if load_u8(initialised + offset + q) == 0 and (bytes_ >> (q & 15)) & 1:
            record_finding(
                m.report_entry,
                m.address,
                (UNINITIALIZED, pc, w, 1 << lane, -1, -1),
                (number << SEGMENT_SHIFT | offset, 0, size, number, 0),
            )
            return


# -- who touched it ----------------------------------------------------------------------------------------------------


@compiled
def comes_after(m, w, lane, v, low, high, space, bulk):
    """Return whether the current action of a lane, or of its agent, follows the access v by lanes `low` to `high` of
    this CTA; for the async proxy, order alone is not sufficient."""
    interval, u = (v >> INTERVAL_SHIFT) & INTERVALS, (v >> WARP_SHIFT) & ACTORS
    if interval <= m.base:
        return True
    if u >= GENERIC:
        if bulk and u < BULK and not agent_relied(m, w, lane, space, interval):
            return False
        return agent_known(m, w, lane, interval)
    lanes = ((2 << high) - (1 << low)) & there(m, u)
    own = lane_row(m, w, lane) + 256 * u
    if bulk:
        own += async_visible_offset(m, space)
        if u == w and load_i64(warp_at(m.warps, w).fenced + 256 * space + 8 * lane) >= interval:
            lanes &= 0 if m.lockstep else ~(1 << lane)
    elif u == w:
        lanes &= 0 if m.lockstep else ~(1 << lane)
    return least(own, lanes) >= interval


@compiled
def conflicts(m, pc, kind, v, reads):
    """Return whether an access of this kind conflicts with a recorded access v: a last write, or, with `reads`, a later
    read or atomic."""
    if not reads or kind == WRITE:
        return True
    if v & ATOMIC_BIT == 0:
        return kind == ATOMIC
    if kind == READ:
        return loads(m, v) == 0
    return width(m, v) != width(m, pc)


@compiled
def other_kind(v, reads):
    if not reads:
        return WRITE
    return ATOMIC if v & ATOMIC_BIT else READ


@compiled
def judge_set(m, w, lane, pc, v, kind, address, floor, space, bulk, size):
    """Return whether an access in a set conflicts with this one and may not precede it; report those of other CTAs."""
    place = load_i64(m.sets + 8 * set_number(v))
    suspect = False
    for q in range(place & 0xFFFF):
        e = load_i64(m.elements + 8 * ((place >> 16) + q))
        if not conflicts(m, pc, kind, e, True):
            continue
        if (e >> INTERVAL_SHIFT) & INTERVALS <= floor:
            at = e & (MAX_INSTRUCTIONS - 1)
            record_conflict(m, RACE, pc, w, lane, e, at, address, kind, other_kind(e, True), size)
        elif not comes_after(m, w, lane, e, 0, 31, space, bulk):
            suspect = True
    return suspect


@compiled
def mark_cells(m, segment, address, group):
    while group:
        mark(m, address + (lowest_bit(group) << segment.grain))
        group &= group - 1


@compiled
def judge_cells(m, w, lane, pc, segment, cells, mask, kind, reads, address, floor, space, bulk, size):
    """Check an access against 32 cells, the first of which is at `address`."""
    rest = mask
    while rest:
        first = lowest_bit(rest)
        v = load_i64(cells + 8 * first)
        bits = -1 if v < 0 else BUT_LANES
        group = same_key(cells, bits, v & bits) & rest
        rest &= ~group
        if v == 0:
            continue
        at = address + (first << segment.grain)
        if v < 0:
            if judge_set(m, w, lane, pc, v, kind, at, floor, space, bulk, size):
                mark_cells(m, segment, address, group)
            continue
        if not conflicts(m, pc, kind, v, reads):
            continue
        if (v >> INTERVAL_SHIFT) & INTERVALS <= floor:
            before = v & (MAX_INSTRUCTIONS - 1)
            record_conflict(m, RACE, pc, w, lane, v, before, at, kind, other_kind(v, reads), size)
            continue
        if m.alone and space and kind == WRITE and not reads and (v >> WARP_SHIFT) & ACTORS >= BULK:
            before = v & (MAX_INSTRUCTIONS - 1)  # in the second run, another lane may perform the store
            record_conflict(m, RACE, pc, w, lane, v, before, at, kind, WRITE, size)
            continue
        if comes_after(m, w, lane, v, 0, 31, space, bulk):
            continue
        while group:
            j = lowest_bit(group)
            group &= group - 1
            v = load_i64(cells + 8 * j)
            if not comes_after(m, w, lane, v, (v >> LOW_SHIFT) & 31, (v >> HIGH_SHIFT) & 31, space, bulk):
                mark(m, address + (j << segment.grain))


@compiled
def with_reader(m, old, new, floor):
    """Return the set of `old`, an access or a set, and an agent's access `new`."""
    n = 1
    if old < 0:
        n = load_i64(m.sets + 8 * set_number(old)) & 0xFFFF
    if n > MANY or m.set_count > m.set_room + FEW_SETS or m.element_count > m.element_room + FEW_SETS * MANY:
        return ANYONE | ATOMIC_BIT
    h = ((old * 0x2127599BF4325C37 + new) * 0x2545F4914F6CDD1D) >> 33
    while True:
        memo = memo_at(m.memo, h & m.memo_mask)
        if memo.old == old and memo.new == new:
            return memo.result
        if memo.old == 0:
            break
        h += 1
    memo.old = old
    memo.new = new
    start = m.element_count
    foreign = 0
    if old < 0:
        place = load_i64(m.sets + 8 * set_number(old))
        for q in range(n):
            foreign = add_element(m, load_i64(m.elements + 8 * ((place >> 16) + q)), floor, foreign)
    else:
        foreign = add_element(m, old, floor, foreign)
    add_element(m, new, floor, foreign)
    atomic = 0
    for q in range(start, m.element_count):
        atomic |= load_i64(m.elements + 8 * q) & ATOMIC_BIT
    store_i64(m.sets + 8 * m.set_count, start << 16 | (m.element_count - start))
    memo.result = SET | atomic | m.set_count << WARP_SHIFT
    m.set_count += 1
    return memo.result


@compiled
def write_out(m, cells, mask):
    """Replace READERS among 32 cells by sets; if these would be too many, the reads are no longer recorded."""
    rest = same_key(cells, READERS, READERS) & mask
    while rest:
        v = load_i64(cells + 8 * lowest_bit(rest))
        group = same_key(cells, -1, v) & rest
        rest &= ~group
        if m.set_count > m.set_room + FEW_SETS or m.element_count > m.element_room + FEW_SETS * MANY:
            put(cells, group, ANYONE | ATOMIC_BIT)
        else:
            put(cells, group, written_out(m, v))


@compiled
def add_reader(m, cells, mask, new, floor):
    """Add an agent's read or reduction to 32 cells."""
    rest = mask
    while rest:
        v = load_i64(cells + 8 * lowest_bit(rest))
        bits = -1 if v < 0 else BUT_LANES
        group = same_key(cells, bits, v & bits) & rest
        rest &= ~group
        if v == 0:
            put(cells, group, new)
        elif v & BUT_LANES != new & BUT_LANES:
            put(cells, group, with_reader(m, v & bits, new & BUT_LANES, floor))


@compiled
def touch_range(m, w, lane, pc, address, size, kind, base, bulk):
    """Check and record an access by a lane, or its agent, to a range; `base` is the access in the form of a cell."""
    touch_piece(m, w, lane, pc, address, size, kind, base, bulk, size, 1 << lane)


@compiled
def touch_piece(m, w, lane, pc, address, size, kind, base, bulk, whole, lanes):
    """Check and record an access to a piece of `size` bytes as a whole; if lanes are checked exactly, for `lanes` at
    once."""
    address &= ~ADDRESS_WRAPPED
    number = address >> SEGMENT_SHIFT
    if size == 0 or not is_tracked(m, number, kind != READ):
        return
    segment = segment_at(m.segments, number)
    grain = segment.grain
    floor = floor_of(m, number)
    space = number != SHARED
    offset = address & OFFSET_MASK
    first = offset >> grain
    n = size >> grain
    ordered = 0
    q = 0
    while q < n:
        mask = FULL if n - q >= LANES else (1 << (n - q)) - 1
        writes, reads = segment.writes + 8 * (first + q), segment.reads + 8 * (first + q)
        at = address + (q << grain)
        v = load_i64(writes) & WHEN
        if (v and v != ordered) or uniform(writes, WHEN, v) == 0 or mask != FULL:
            judge_cells(m, w, lane, pc, segment, writes, mask, kind, False, at, floor, space, bulk, whole)
            known = v and (v >> INTERVAL_SHIFT) & INTERVALS > floor
            if known and comes_after(m, w, lane, v, 0, 31, space, bulk):
                ordered = v
        empty = uniform(reads, -1, 0)
        if not empty:
            write_out(m, reads, mask)
            judge_cells(m, w, lane, pc, segment, reads, mask, kind, True, at, floor, space, bulk, whole)
        if kind == WRITE:
            put(writes, mask, base)
            if not empty:
                put(reads, mask, 0)
        elif empty:
            put(reads, mask, base)
        else:
            add_reader(m, reads, mask, base, floor)
        q += LANES
    note_range(segment, first, n)
    if segment.watched and lanes:
        m.whole = whole
        call(m.lanes_entry, m.address, w, pc, offset, size, lanes, kind, base, number)
