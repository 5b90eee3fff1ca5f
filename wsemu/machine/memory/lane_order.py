"""Exact race checks between the lanes of one warp: the second run of a launch in which lanes may conflict.

A cell of shadow memory stores the lanes of one access as a range, and cannot store those of several accesses.
`shadow.py` therefore overestimates the lanes, and marks the bytes on which they could conflict. A second run keeps, for
each cell of these bytes, a list of accesses with their exact lanes, and decides which conflict. It also decides
conflicts between warps if each lane has its own clock (`lane_clocks.py`).

    `entering an access`    A plain write empties the list.  A read removes lanes from earlier reads if one of its own
                            lanes has observed them: whoever observes the new read has observed the earlier one.  An
                            atomic does the same with atomics of its width.
    `leaving an access`     An access that all lanes of its warp have observed is dropped, unless lanes of other warps
                            matter.
"""

from __future__ import annotations

from wsemu.machine.lowering import compiled, set_bits
from wsemu.machine.memory.cell_bits import (
    ACTORS,
    BULK,
    GENERIC,
    HIGH_SHIFT,
    INTERVAL_SHIFT,
    INTERVALS,
    LANE_BITS,
    LOW_SHIFT,
    MAX_INSTRUCTIONS,
    WARP_SHIFT,
)
from wsemu.machine.memory.shadow import INTRA_WARP, RACE, alike, clash, loads, record_conflict
from wsemu.machine.records import instruction_at, lane_access_at, machine_at, segment_at, warp_at
from wsemu.machine.scalars import load_i64, lowest_bit, store_i64
from wsemu.machine.sync.lane_clocks import agent_known, agent_relied, lane_relies, lane_row, lanes_unknown
from wsemu.model.codes import CODE_NUMBERS
from wsemu.model.isa import ATOMIC, FIRST_STORE, N_CONTROL, N_MEMORY, READ, SEGMENT_SHIFT, SHARED, WRITE

PROXY, PROXY_WAR = CODE_NUMBERS["proxy"], CODE_NUMBERS["proxy-war"]
EMPTY = 1
"""number that represents no access"""


@compiled
def kind_of(m, access):
    """Return the kind of an access in a list, and its bytes per lane; a cell stores an agent's kind instead of
    lanes."""
    i = instruction_at(m.code, access & (MAX_INSTRUCTIONS - 1))
    if (access >> WARP_SHIFT) & ACTORS >= GENERIC:
        return (access >> LOW_SHIFT) & 3, i.aux & 255
    if i.op >= N_CONTROL:  # zeros
        return WRITE, 0
    return ATOMIC if i.op >= N_MEMORY else WRITE if i.op >= FIRST_STORE else READ, i.aux & 255


@compiled
def unordered_lanes(m, w, access, lanes, lane):
    """Return the lanes of an access of the same warp whose effects `lane` has not observed."""
    rest = lanes & ~(1 << lane)
    warp = warp_at(m.warps, w)
    if warp.partial == 0:
        return rest
    known = lane_row(m, w, lane) + 256 * w if m.by_lanes else warp.lane_clocks + 256 * lane
    interval = (access >> INTERVAL_SHIFT) & INTERVALS
    unknown = 0
    for other in set_bits(rest):
        if load_i64(known + 8 * other) < interval:
            unknown |= 1 << other
    return unknown


@compiled
def report_lanes(m, w, pc, access, before, lanes, address, kind, other_kind, size):
    """Record the lanes that are not ordered after all lanes `before` of an earlier access."""
    u, interval = (access >> WARP_SHIFT) & ACTORS, (access >> INTERVAL_SHIFT) & INTERVALS
    code = INTRA_WARP if u == w else RACE
    for lane in set_bits(lanes):
        unknown = (
            lanes_unknown(m, w, lane, u, before, interval) if u != w else unordered_lanes(m, w, access, before, lane)
        )
        if unknown == 0:
            continue
        last = 31
        while not (unknown >> last) & 1:
            last -= 1
        v = access | lowest_bit(unknown) << LOW_SHIFT | last << HIGH_SHIFT
        other_pc = access & (MAX_INSTRUCTIONS - 1)
        record_conflict(m, code, pc, w, lane, v, other_pc, address, kind, other_kind, size)


@compiled
def unordered_agent_lanes(m, w, access, before, base, lanes, kind, size):
    """Record unordered lanes in a program with asynchronous operations, which are not ordered after anything that
    precedes them."""
    u, interval = (access >> WARP_SHIFT) & ACTORS, (access >> INTERVAL_SHIFT) & INTERVALS
    other_kind, _ = kind_of(m, access)
    if (base >> WARP_SHIFT) & ACTORS >= GENERIC or other_kind != kind:
        return before
    if kind == ATOMIC and (u >= GENERIC or not alike(m, access, base)):
        return before
    for lane in set_bits(lanes):
        if u < GENERIC:
            before &= lanes_unknown(m, w, lane, u, before, interval)
        elif agent_known(m, w, lane, interval):
            return 0
    return before


@compiled
def left_over(m, w, access, before, base, lanes, kind, size):
    """Return the lanes of an earlier access that must be kept after this access."""
    u = (access >> WARP_SHIFT) & ACTORS
    interval = (access >> INTERVAL_SHIFT) & INTERVALS
    if kind == WRITE or interval <= m.base:
        return 0
    if m.asynchronous:
        return unordered_agent_lanes(m, w, access, before, base, lanes, kind, size)
    if m.apart == 0 and interval <= warp_at(m.warps, u).synced:
        return 0
    other_kind, _ = kind_of(m, access)
    if u != w or other_kind != kind or (kind == ATOMIC and not alike(m, access, base)):
        return before
    while lanes:
        before &= unordered_lanes(m, w, access, before, lowest_bit(lanes))
        lanes &= lanes - 1
    return before


@compiled
def highest_bit(mask):
    last = 31
    while not (mask >> last) & 1:
        last -= 1
    return last


@compiled
def report_pair(m, code, w, pc, lane, access, others, address, kind, before, size):
    v = access & ~LANE_BITS | lowest_bit(others) << LOW_SHIFT | highest_bit(others) << HIGH_SHIFT
    at = access & (MAX_INSTRUCTIONS - 1)
    record_conflict(m, code, pc, w, lane, v, at, address, kind, before, size)


@compiled
def judge_agents(m, w, pc, access, before, base, lanes, address, kind, size, read_back):
    """Check an access against an earlier one; at least one of them is an agent's.

    `read_back`: a known read of the generic proxy has returned the value of the last write. If it is in shared memory,
    the write is then performed; a read of global memory may have returned the value from a cache.
    """
    other_kind, other_size = kind_of(m, access)
    actor, u = (base >> WARP_SHIFT) & ACTORS, (access >> WARP_SHIFT) & ACTORS
    interval = (access >> INTERVAL_SHIFT) & INTERVALS
    reads = kind == READ or (kind == ATOMIC and actor < GENERIC and loads(m, pc) != 0)
    read = other_kind == READ or (other_kind == ATOMIC and u < GENERIC and loads(m, access) != 0)
    if reads and read:
        return
    if kind == ATOMIC and other_kind == ATOMIC and other_size == instruction_at(m.code, pc).aux & 255:
        return
    space = address >> SEGMENT_SHIFT != SHARED
    fenced = other_kind == WRITE and read_back and space == 0  # it remains that the read lacks the fence
    for lane in set_bits(lanes):
        if u >= GENERIC:
            if not agent_known(m, w, lane, interval):
                report_pair(m, RACE, w, pc, lane, access, before, address, kind, other_kind, size)
            elif actor >= BULK and u < BULK and not fenced and not agent_relied(m, w, lane, space, interval):
                code = PROXY_WAR if read else PROXY
                report_pair(m, code, w, pc, lane, access, before, address, kind, other_kind, size)
            continue
        unknown = lanes_unknown(m, w, lane, u, before, interval)
        if unknown:
            report_pair(m, RACE, w, pc, lane, access, unknown, address, kind, other_kind, size)
        if actor >= BULK and not fenced:
            unfenced = not_relied(m, w, lane, space, u, before & ~unknown, interval)
            if unfenced:
                code = PROXY_WAR if read else PROXY
                report_pair(m, code, w, pc, lane, access, unfenced, address, kind, other_kind, size)


@compiled
def not_relied(m, w, lane, space, u, others, interval):
    """Return the lanes whose effects are not visible to an asynchronous operation of a given lane."""
    found = 0
    for other in set_bits(others):
        if not lane_relies(m, w, lane, space, u, other, interval):
            found |= 1 << other
    return found


@compiled
def is_read_back(m, w, n, base, lanes, kind):
    """Return whether lanes that issued an asynchronous write have observed a generic read since the last write."""
    if kind != WRITE or (base >> WARP_SHIFT) & ACTORS < BULK:
        return False
    lane = lowest_bit(lanes)
    while n != EMPTY:
        r = lane_access_at(m.records, n)
        other_kind, _ = kind_of(m, r.access)
        u, interval = (r.access >> WARP_SHIFT) & ACTORS, (r.access >> INTERVAL_SHIFT) & INTERVALS
        reads = u < GENERIC and other_kind == READ and interval > m.base
        if reads and lanes_unknown(m, w, lane, u, r.lanes, interval) == 0:
            return True
        n = r.next
    return False


@compiled
def enter(m, w, pc, place, lanes, base, address, kind, size):
    """Check an access of some lanes to a watched cell, and add it to the cell's list."""
    warp = warp_at(m.warps, w)
    agent = (base >> WARP_SHIFT) & ACTORS >= GENERIC
    n, kept = load_i64(place), EMPTY
    new = lanes
    read_back = is_read_back(m, w, n, base, lanes, kind)
    while n != EMPTY:
        r = lane_access_at(m.records, n)
        access, following = r.access, r.next
        own = (access >> WARP_SHIFT) & ACTORS == w
        if agent or (access >> WARP_SHIFT) & ACTORS >= GENERIC:
            if (access >> INTERVAL_SHIFT) & INTERVALS > m.base:
                judge_agents(m, w, pc, access, r.lanes, base, lanes, address, kind, size, read_back)
        elif (access >> INTERVAL_SHIFT) & INTERVALS > (warp.synced if own else m.base) and (own or m.by_lanes):
            other_kind, _ = kind_of(m, access)
            if (other_kind == WRITE or clash(m, kind, pc, access)) and not (own and m.lockstep):
                report_lanes(m, w, pc, access, r.lanes, lanes, address, kind, other_kind, size)
        r.lanes = left_over(m, w, access, r.lanes, base, lanes, kind, size)
        if access == base:  # the same instruction, in the same interval
            new |= r.lanes
            r.lanes = 0
        if r.lanes:
            r.next = kept
            kept = n
        else:
            r.next = m.record_free
            m.record_free = n
        n = following
    free = m.record_free
    if free == EMPTY:
        free = m.record_count
        m.record_count += 1
    else:
        m.record_free = lane_access_at(m.records, free).next
    r = lane_access_at(m.records, free)
    r.access = base
    r.lanes = new
    r.next = kept
    store_i64(place, free)


@compiled
def judge_range(m, w, pc, segment, offset, size, lanes, kind, base, number):
    """Check a range of bytes that a lane, or an agent of it, accesses, and add it to the lists of its cells."""
    grain = segment.watched_grain
    base &= ~LANE_BITS
    if (base >> WARP_SHIFT) & ACTORS >= GENERIC:
        base |= kind << LOW_SHIFT
    for q in range(offset >> grain, (offset + size - 1 >> grain) + 1):
        place = segment.watched + 8 * q
        if load_i64(place):
            enter(m, w, pc, place, lanes, base, number << SEGMENT_SHIFT | q << grain, kind, m.whole)


def judge_lanes(address, w, pc, registers, bias, mask, kind, base, number):
    """Check and record an access to the watched cells of a segment. Called by address."""
    m = machine_at(address, 0)
    segment = segment_at(m.segments, number)
    i = instruction_at(m.code, pc)
    size, grain = i.aux & 255, segment.watched_grain
    if i.op >= N_CONTROL:
        judge_range(m, w, pc, segment, registers, bias, mask, kind, base, number)
        return 0
    while mask:
        at = load_i64(registers + i.a + 8 * lowest_bit(mask))
        group, rest = 0, mask
        for lane in set_bits(rest):
            if load_i64(registers + i.a + 8 * lane) == at:
                group |= 1 << lane
        mask &= ~group
        for q in range(max(size >> grain, 1)):
            place = segment.watched + 8 * (((at + bias) >> grain) + q)
            if load_i64(place):
                start = number << SEGMENT_SHIFT | (at + bias) + (q << grain)
                enter(m, w, pc, place, group, base, start, kind, size)
    return 0
