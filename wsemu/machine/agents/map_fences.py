"""Fences between changes of tensor maps and copies through these maps, in compiled code.

PTX ISA, "membar, fence" (`fence.proxy.tensormap::generic`), "tensormap.cp_fenceproxy", "Causality order": tensor copies
read their map through the tensormap proxy.  A thread that observed the change must release it to that proxy, and a
thread of the copy's CTA that observed the release must acquire it with the map's address.  The issuing thread must have
observed that acquisition.  Releases are a part of the rows of `lane_clocks.py`.  Acquisitions are a table: the thread,
the map, and the last write of each byte at that time.  After a further change, the map has other last writes, and must
be acquired again.
"""

from __future__ import annotations

from wsemu.machine.agents.ranges import host_place
from wsemu.machine.lowering import compiled, set_bits
from wsemu.machine.memory.cell_bits import (
    ACTORS,
    ATOMIC_BIT,
    GENERIC,
    HIGH_SHIFT,
    INTERVAL_SHIFT,
    INTERVALS,
    LOW_SHIFT,
    MAX_INSTRUCTIONS,
    WARP_SHIFT,
)
from wsemu.machine.memory.shadow_cells import join
from wsemu.machine.records import acquired_at, instruction_at, record_finding, segment_at, warp_at
from wsemu.machine.scalars import load_i64, lowest_bit, store_i64
from wsemu.machine.state import DONE, EVENT_KINDS, FAULT, GROW, GROW_MAPS, TRACKED, UNUSED_SHIFT
from wsemu.machine.sync.clocks import begin_interval
from wsemu.machine.sync.events import log
from wsemu.machine.sync.lane_clocks import (
    heads,
    lane_knows,
    lane_released,
    lanes_unknown,
    released_offset,
    row,
    separate,
    there,
)
from wsemu.model.codes import CODE_NUMBERS
from wsemu.model.isa import (
    ADDRESS_WRAPPED,
    FIRST_STORE,
    LANES,
    N_MEMORY,
    OF_CTA_ALONE,
    OFFSET_MASK,
    PUBLISHED,
    PUBLISHED_IN_CTA,
    SEGMENT_SHIFT,
    opcodes,
)
from wsemu.model.tensor_map import MAP_ALIGNMENT, MAP_BYTES

RELEASE, ACQUIRE = opcodes("map", "release", "acquire")
PROXY_FENCE = EVENT_KINDS.index("proxy")
NO_FENCE = CODE_NUMBERS["tensormap-proxy"]
NOT_RELEASED, NOT_ACQUIRED = range(2)
"""`what` of a tensormap-proxy finding"""


# -- writes ------------------------------------------------------------------------------------------------------------


@compiled
def is_watched(m, address):
    """Return whether shadow memory records the writers at an address."""
    segment = segment_at(m.segments, address >> SEGMENT_SHIFT)
    return m.clocks and segment.tracked == TRACKED and segment.grain >= 0


@compiled
def segment_grain(m, address):
    return segment_at(m.segments, address >> SEGMENT_SHIFT).grain


@compiled
def last_write(m, address, q):
    """Return the shadow cell with the last write of byte q of a map."""
    segment = segment_at(m.segments, address >> SEGMENT_SHIFT)
    return load_i64(segment.writes + 8 * (((address & OFFSET_MASK) + q) >> segment.grain))


@compiled
def written_otherwise(m, address):
    """Return whether an asynchronous operation or an atomic has written to a map."""
    if not is_watched(m, address):
        return False
    segment = segment_at(m.segments, address >> SEGMENT_SHIFT)
    first = (address & OFFSET_MASK) >> segment.grain
    for q in range(first, first + (MAP_BYTES >> segment.grain)):
        v = load_i64(segment.writes + 8 * q)
        if (v and (v >> WARP_SHIFT) & ACTORS >= GENERIC) or load_i64(segment.reads + 8 * q) & ATOMIC_BIT:
            return True
    return False


@compiled
def writer(v):
    return (v >> WARP_SHIFT) & ACTORS


@compiled
def interval_number(v):
    return (v >> INTERVAL_SHIFT) & INTERVALS


@compiled
def lanes_of_write(m, v):
    low, high = (v >> LOW_SHIFT) & 31, (v >> HIGH_SHIFT) & 31
    return ((2 << high) - (1 << low)) & there(m, writer(v))


@compiled
def is_known(m, w, lane, v):
    """Return whether a lane has observed a write."""
    return lanes_unknown(m, w, lane, writer(v), lanes_of_write(m, v), interval_number(v)) == 0


@compiled
def is_released(m, w, lane, v, wide):
    """Return whether a lane has observed the release of a write, and its fence, `wide` if it exceeds CTA scope, can
    acquire it: the scope of each includes the other's CTA. A write of an asynchronous operation is never released."""
    u = writer(v)
    if u >= GENERIC:
        return False
    own = warp_at(m.warps, u).member == warp_at(m.warps, w).member
    i = instruction_at(m.code, v & (MAX_INSTRUCTIONS - 1))
    if i.op >= FIRST_STORE and i.op < N_MEMORY:
        by_itself = i.aux >> UNUSED_SHIFT
        if (by_itself & PUBLISHED and (wide or own)) or (by_itself & PUBLISHED_IN_CTA and own):
            return is_known(m, w, lane, v)
    if m.releases == 0:
        return False
    return (wide and all_released(m, w, lane, v, 1)) or all_released(m, w, lane, v, 0)


@compiled
def all_released(m, w, lane, v, wide):
    for other in set_bits(lanes_of_write(m, v)):
        if not lane_released(m, w, lane, wide, writer(v), other, interval_number(v)):
            return False
    return True


# -- fences ------------------------------------------------------------------------------------------------------------


@compiled
def release(m, w, pc, i, mask):
    """Execute map.release: publish the operations that these lanes have performed or observed."""
    log(m, PROXY_FENCE, w, pc, -1, -1, mask, 0)
    warp = warp_at(m.warps, w)
    separate(m, w, mask)
    rest = heads(m, w, mask)
    while rest:
        own = row(m, LANES * w + lowest_bit(rest))
        rest &= rest - 1
        for u in range(m.warp_count):
            join(own + released_offset(m, 1 + warp.member) + 256 * u, own + 256 * u)
            if i.aux != OF_CTA_ALONE:
                join(own + released_offset(m, 0) + 256 * u, own + 256 * u)
    now = load_i64(warp.clock + 8 * w)
    rest = (1 << LANES) - 1 if m.lockstep else mask
    while rest:
        place = warp.fenced + 512 + 8 * lowest_bit(rest)
        rest &= rest - 1
        store_i64(place + 256, now)
        if i.aux != OF_CTA_ALONE:
            store_i64(place, now)
    begin_interval(warp, w)


@compiled
def is_stale(m, r):
    """Return whether all bytes of an acquired map have been overwritten since."""
    q = 0
    while q < MAP_BYTES:
        if r.cells[q] and r.cells[q] == last_write(m, r.address, q):
            return False
        q += 1 << r.grain
    return True


@compiled
def free_place(m):
    """Return the index of a free entry for an acquired map; -1 if the table is full."""
    if m.map_count < m.map_room:
        m.map_count += 1
        return m.map_count - 1
    for n in range(m.map_count):
        if is_stale(m, acquired_at(m.maps, n)):
            return n
    return -1


@compiled
def has_acquired(m, w, lane, address, q, v, itself):
    """Return whether this lane has observed that a lane of the CTA acquired a write to byte q.

    With `itself`, return whether this lane has acquired the write.
    """
    for n in range(m.map_count):
        r = acquired_at(m.maps, n)
        if r.address != address or r.member != warp_at(m.warps, w).member:
            continue
        if itself and (r.warp != w or r.lane != lane):
            continue
        if r.cells[q >> r.grain << r.grain] == v and lane_knows(m, w, lane, r.warp, r.lane, r.interval):
            return True
    return False


@compiled
def acquire_lane(m, w, lane, address, wide):
    """Record that a lane acquires a map, and return DONE, or GROW if the table of acquisitions is full."""
    grain = segment_grain(m, address)
    new = 0
    q = 0
    while q < MAP_BYTES and not new:
        v = last_write(m, address, q)
        if v and interval_number(v) > m.base and is_released(m, w, lane, v, wide):
            new = not has_acquired(m, w, lane, address, q, v, 1)
        q += 1 << grain
    if not new:
        return DONE
    place = free_place(m)
    if place < 0:
        m.wanted = GROW_MAPS
        return GROW
    r = acquired_at(m.maps, place)
    r.address = address
    r.member = warp_at(m.warps, w).member
    r.warp = w
    r.lane = lane
    r.interval = load_i64(warp_at(m.warps, w).clock + 8 * w)
    r.grain = grain
    q = 0
    while q < MAP_BYTES:
        v = last_write(m, address, q)
        there_ = v and interval_number(v) > m.base and is_released(m, w, lane, v, wide)
        r.cells[q] = v if there_ else 0
        q += 1 << grain
    return DONE


@compiled
def acquire(m, w, pc, registers, i, mask):
    """Execute map.acquire, and return a status."""
    for lane in set_bits(mask):
        address = load_i64(registers + i.a + 8 * lane)
        if host_place(m, w, pc, lane, address, MAP_BYTES, MAP_ALIGNMENT, False, False, True) == 0:
            return FAULT
        address &= ~ADDRESS_WRAPPED
        if is_watched(m, address):
            status = acquire_lane(m, w, lane, address, i.aux != OF_CTA_ALONE)
            if status != DONE:
                return status
    return DONE


# -- copies ------------------------------------------------------------------------------------------------------------


@compiled
def judge_map(m, w, pc, lane, address):
    """Report the first write to a map that a lane's copy may miss.

    If the lane has not even observed the write, the error is a race, which is reported elsewhere.
    """
    if not is_watched(m, address):
        return
    q = 0
    while q < MAP_BYTES:
        v = last_write(m, address, q)
        known = v and interval_number(v) > m.base and is_known(m, w, lane, v)
        if known and not has_acquired(m, w, lane, address, q, v, 0):
            what = NOT_ACQUIRED if is_released(m, w, lane, v, 1) else NOT_RELEASED
            bit, at = 1 << lane, v & (MAX_INSTRUCTIONS - 1)
            record_finding(m.report_entry, m.address, (NO_FENCE, pc, w, bit, at, writer(v)), (address, what, 0, 0, 0))
            return
        q += 1 << segment_grain(m, address)
