"""Racing stores of one value to one location, called *joined*: this run checks everything that conflicts with them.

Only launches that request this run pay for it: there, `track_joined` replaces `shadow.track`. Cells record a joined
store like an atomic that conflicts with everything except other joined stores. Every joined store is recorded, and each
later access must be ordered after all of them. The stored values are compared as well. The bytes of a location have a
*turn*, and each joined store that changes the bytes begins a new turn. Joined stores of one turn do not conflict;
joined stores of different turns do.

These checks are sufficient. Suppose that two joined stores to a byte are unordered in a run without a conflict. No
other write comes between them, because a write is ordered with both. Nor do they belong to different turns. Each turn
has a store, and every store of a turn is ordered before every store of the next turn. So a chain of stores would order
the two. Hence both belong to the same turn, in which every store leaves the byte as the turn's first store did.
"""

from __future__ import annotations

from wsemu.machine.lowering import compiled, set_bits
from wsemu.machine.memory.cell_bits import ATOMIC_BIT, LANE_BITS
from wsemu.machine.memory.lane_access import SAME, SCATTERED
from wsemu.machine.memory.lane_order import enter
from wsemu.machine.memory.shadow import (
    EACH,
    ONE,
    floor_of,
    highest_bit,
    missing_room,
    note_range,
    now,
    put_back,
    range_of,
    same_bytes,
    touch,
)
from wsemu.machine.memory.shadow_cells import gather
from wsemu.machine.records import call, instruction_at, machine_at, segment_at
from wsemu.machine.scalars import load_i64, load_u8, lowest_bit, store_u8
from wsemu.machine.state import GROW, GROW_WINDOW
from wsemu.model.isa import ATOMIC, LANES, SEGMENT_SHIFT


@compiled
def leaves_unchanged(registers, i, lane, host, first, end, size):
    """Return whether a lane's store leaves some of its bytes, from `first` to end - 1, unchanged."""
    each = size // ((i.aux >> 8) & 255)
    for at in range(first, end):
        value = load_u8(registers + i.d + 256 * (at // each) + lane * each + at % each)
        if value != load_u8(host + at):
            return False
    return True


@compiled
def agree(m, w, pc, registers, i, mask, size):
    """Record a conflict if lanes store different values to the same address."""
    while mask:
        lane = lowest_bit(mask)
        sharing, rest = 0, mask
        for other in set_bits(rest):
            if load_i64(registers + i.a + 8 * other) == load_i64(registers + i.a + 8 * lane):
                sharing |= 1 << other
        mask &= ~sharing
        if sharing & (sharing - 1):
            same_bytes(m, w, pc, registers, i, sharing, highest_bit(sharing), size)


@compiled
def odd_turn_lanes(registers, i, bias, mask, host, turns, first, end, size):
    """Return the lanes whose stores to a cell (their bytes `first` to end - 1) are of an odd turn.  A store that
    changes these bytes begins a turn."""
    odd, begins, rest = 0, 0, mask
    for lane in set_bits(rest):
        at = load_i64(registers + i.a + 8 * lane) + bias
        turn = load_u8(turns + at + first)
        if not leaves_unchanged(registers, i, lane, host + at, first, end, size):
            begins |= 1 << lane
            turn ^= 1
        odd |= turn << lane
    for lane in set_bits(begins):
        at = load_i64(registers + i.a + 8 * lane) + bias
        for q in range(first, end):
            store_u8(turns + at + q, odd >> lane & 1)
    return odd


@compiled
def touch_cells(m, w, row, registers, i, bias, mask, segment, floor, q):
    """Check and record the stores of some lanes, all of one turn, to the q-th of each lane's cells."""
    addresses, grain = registers + i.a, segment.grain
    offset, none, kind = bias + (q << grain), 0, ATOMIC
    base = now(m, w, row) | ATOMIC_BIT
    writes, reads = m.lanes_scratch, m.lanes_scratch + 8 * LANES
    gather(addresses, mask, offset, grain, segment.writes, writes)
    gather(addresses, mask, offset, grain, segment.reads, reads)
    touch(m, w, row, writes, reads, mask, kind, base, floor, EACH, none, none, none, q)
    put_back(m, addresses, mask, offset, grain, segment.reads, reads, False)


@compiled
def touch_cell(m, w, row, registers, i, bias, mask, segment, floor, q):
    """Judge and remember stores of lanes that all have one address."""
    lane = lowest_bit(mask)
    spread, kind = highest_bit(mask) - lane, ATOMIC
    cell = ((load_i64(registers + i.a + 8 * lane) + bias) >> segment.grain) + q
    writes, reads = segment.writes + 8 * cell, segment.reads + 8 * cell
    base, one, none = now(m, w, row) | ATOMIC_BIT, 1, 0
    m.sharing = mask
    touch(m, w, row, writes, reads, one, kind, base, floor, ONE, none, lane, spread, q)


@compiled
def enter_lanes(m, w, row, registers, i, bias, lanes, segment, number):
    """Judge and remember the same stores lane by lane, in the watched cells, which may be smaller than others."""
    base, grain = (now(m, w, row) | ATOMIC_BIT) & ~LANE_BITS, segment.watched_grain
    n = max((1 << segment.grain) >> grain, 1)
    while lanes:
        lane = lowest_bit(lanes)
        at = load_i64(registers + i.a + 8 * lane) + bias
        sharing, rest = 0, lanes
        for other in set_bits(rest):
            if load_i64(registers + i.a + 8 * other) + bias == at:
                sharing |= 1 << other
        lanes &= ~sharing
        for q in range(n):
            place = segment.watched + 8 * ((at >> grain) + q)
            if load_i64(place):
                start = number << SEGMENT_SHIFT | at + (q << grain)
                enter(m, w, row, place, sharing, base, start, ATOMIC, i.aux & 255)


def track_joined(address, w, pc, registers, bias, mask, how, number):
    """Judge and remember an access to a tracked segment, as `shadow.track` does, or as a joined store."""
    m = machine_at(address, 0)
    row = load_i64(m.joined + 8 * pc)
    if row == 0:
        return call(m.track_entry, address, w, pc, registers, bias, mask, how, number)
    segment = segment_at(m.segments, number)
    i = instruction_at(m.code, pc)
    size = i.aux & 255
    status = missing_room(m, pc, number, segment, size)
    if status:
        return status
    lane = lowest_bit(mask)
    offset, grain = load_i64(registers + i.a + 8 * lane) + bias, segment.grain
    log = ((i.aux >> 16) & 255) - grain
    low, n = range_of(registers + i.a, bias, mask, SCATTERED, offset, lane, grain, log)
    if not note_range(segment, low, n):
        m.wanted = GROW_WINDOW
        return GROW
    agree(m, w, pc, registers, i, mask, size)
    floor, turns = floor_of(m, number), load_i64(m.turns + 8 * number)
    for q in range(size >> grain):
        odd = odd_turn_lanes(registers, i, bias, mask, segment.host, turns, q << grain, (q + 1) << grain, size)
        for turn in range(2):
            lanes = mask & (odd if turn else ~odd)
            if lanes and how == SAME:
                touch_cell(m, w, row + turn, registers, i, bias, lanes, segment, floor, q)
            elif lanes:
                touch_cells(m, w, row + turn, registers, i, bias, lanes, segment, floor, q)
            if lanes and segment.watched and (m.lockstep == 0 or m.asynchronous):
                enter_lanes(m, w, row + turn, registers, i, bias + (q << grain), lanes, segment, number)
    return 0
