"""Cells for reads of one location by several warps: they store the warps, and the moment at which these read.

A *moment* is a row of intervals, one for each warp. A READERS cell represents a read, since the last write, by each of
its warps, in the interval that the cell's moment has for that warp. If another warp reads the location in the interval
that the moment has for it, then only its bit is added, however often it reads. No set of accesses is created
(`shadow.py`), and cells of one moment are checked together even if their readers differ.

    bits 63, 61   READERS
    32 - 60       number of the moment
    0 - 31        warps

A READERS cell does not contain instructions or lanes. If these matter, the cell is replaced by a set of UNNAMED reads,
and after a conflict with one of them, the launch restarts without READERS cells. Groups of more than 32 warps, and runs
that check lanes exactly, do not use such cells.
"""

from __future__ import annotations

from wsemu.machine.lowering import compiled, set_bits
from wsemu.machine.memory.cell_bits import (
    ACTORS,
    ATOMIC_BIT,
    GENERIC,
    INTERVAL_SHIFT,
    INTERVALS,
    MOMENT_BYTES,
    MOMENT_SHIFT,
    MOMENTS,
    READERS,
    SET,
    UNNAMED,
    WARP_SHIFT,
    WARPS,
)
from wsemu.machine.memory.shadow_cells import NO_MOMENT, behind
from wsemu.machine.records import memo_at, warp_at
from wsemu.machine.scalars import load_i64, lowest_bit, store_i64
from wsemu.model.isa import LANES

ALONE = 1
"""value that means: only the new read remains"""
RECENT = 4
"""number of recent moments that are compared before a new one is created"""


@compiled
def is_readers(v):
    return v & READERS == READERS


@compiled
def moment_of(m, v):
    return m.moments + MOMENT_BYTES * ((v >> MOMENT_SHIFT) & MOMENTS)


@compiled
def present(m, w):
    """Return the current interval of a warp."""
    return load_i64(warp_at(m.warps, w).clock + 8 * w)


@compiled
def takes(m, w, v):
    """Return whether a read by warp w now changes nothing in a cell like v except the warp's bit."""
    return load_i64(moment_of(m, v) + 8 * w) == present(m, w)


@compiled
def others_unknown(m, w, v, warps, floor):
    """Return the other warps whose reads, at the moment of v, warp w has not observed; all if they are of another
    CTA."""
    row = moment_of(m, v)
    if load_i64(row + 8 * lowest_bit(warps)) <= floor:
        return warps
    return behind(warp_at(m.warps, w).clock, row) & warps & ~(1 << w)


@compiled
def is_unsynced(m, w, v):
    """Return whether the lanes of warp w have not synchronized since the moment of v."""
    return m.lockstep == 0 and load_i64(moment_of(m, v) + 8 * w) > warp_at(m.warps, w).synced


@compiled
def unknown(m, w, v, warps, floor):
    """Return the warps whose reads, at the moment of v, warp w has not observed; w is among them if its lanes have not
    synchronized since."""
    rest = others_unknown(m, w, v, warps, floor)
    if (warps >> w) & 1 and is_unsynced(m, w, v):
        rest |= 1 << w
    return rest


@compiled
def forgettable(m, w, v, warps, floor):
    """Return whether warp w has observed the reads of some warps, so that a read by it now represents them.

    It does not represent reads by its own lanes that may not have observed each other.
    """
    if (warps >> w) & 1 and (m.by_lanes or is_unsynced(m, w, v)):
        return False
    return others_unknown(m, w, v, warps, floor) == 0


@compiled
def agrees(m, w, at, row, warps, u, interval):
    """Return whether a moment has warp w in its current interval, u in the given one, and `warps` as in `row`."""
    if load_i64(at + 8 * w) != present(m, w) or load_i64(at + 8 * u) != interval:
        return False
    return warps == 0 or (behind(at, row) | behind(row, at)) & warps == 0


@compiled
def moment_with(m, w, row, warps, u, interval):
    """Return the number of a moment with these intervals, a recent one or a new one; -1 if the table is full."""
    number = m.moment_count
    for back in range(1, min(number, RECENT) + 1):
        if agrees(m, w, m.moments + MOMENT_BYTES * (number - back), row, warps, u, interval):
            return number - back
    if number > m.moment_room:
        return -1
    m.moment_count = number + 1
    at = m.moments + MOMENT_BYTES * number
    for k in range(LANES):
        known = 0
        if (warps >> k) & 1:
            known = load_i64(row + 8 * k)
        elif k < m.warp_count:
            known = present(m, k)
        store_i64(at + 8 * k, known)
    store_i64(at + 8 * u, interval)
    store_i64(at + 8 * w, present(m, w))
    return number


@compiled
def merge_own_reads(m, w, v, warps, floor):
    """Return a cell for a read by warp w now that represents all reads of v by `warps`, whichever lanes of w read.

    Return 0 if w has not observed some of them, or if the table of moments is full.
    """
    if m.by_lanes or others_unknown(m, w, v, warps, floor):
        return 0
    number = moment_with(m, w, moment_of(m, v), 0, w, present(m, w))
    return 0 if number < 0 else READERS | number << MOMENT_SHIFT | 1 << w


@compiled
def latest(m, w):
    """Return a READERS cell without warps for the last moment, if a read by warp w now belongs to this moment like its
    other reads in this interval; otherwise NO_MOMENT."""
    number = m.moment_count - 1
    if m.readers == 0 or number < 0 or warp_at(m.warps, w).partial:
        return NO_MOMENT
    if load_i64(m.moments + MOMENT_BYTES * number + 8 * w) != present(m, w):
        return NO_MOMENT
    return READERS | number << MOMENT_SHIFT


@compiled
def together(m, w, v):
    """Return a cell for the read v of one warp and a read by warp w now; 0 if no cell can hold both."""
    interval, u = (v >> INTERVAL_SHIFT) & INTERVALS, (v >> WARP_SHIFT) & ACTORS
    if m.readers == 0 or u >= GENERIC or v & ATOMIC_BIT or interval <= m.base:
        return 0
    if u == w and (interval != present(m, w) or warp_at(m.warps, w).partial):
        return 0
    number = moment_with(m, w, 0, 0, u, interval)
    if number < 0:
        return 0
    return READERS | number << MOMENT_SHIFT | 1 << u | 1 << w


@compiled
def renew_read_set(m, w, v, floor):
    """Return a cell for the reads of v that warp w has not observed, and a read by warp w now.

    Return ALONE if w has observed all of them, and 0 if no cell can hold them.
    """
    if takes(m, w, v):
        return v | 1 << w
    row, warps = moment_of(m, v), v & WARPS
    if load_i64(row + 8 * lowest_bit(warps)) <= floor:
        return 0
    rest = others_unknown(m, w, v, warps, floor)
    if rest == 0:
        return ALONE if forgettable(m, w, v, warps, floor) else merge_own_reads(m, w, v, warps, floor)
    number = moment_with(m, w, row, rest, w, present(m, w))
    if number < 0:
        return 0
    return READERS | number << MOMENT_SHIFT | rest | 1 << w


@compiled
def written_out(m, v):
    """Return the set of the reads that a READERS cell represents."""
    h = (v * 0x2545F4914F6CDD1D) >> 33
    while True:
        memo = memo_at(m.memo, h & m.memo_mask)
        if memo.old == v:
            return memo.result
        if memo.old == 0:
            break
        h += 1
    memo.old = v
    memo.new = UNNAMED
    start, row, warps = m.element_count, moment_of(m, v), v & WARPS
    for u in set_bits(warps):
        e = load_i64(row + 8 * u) << INTERVAL_SHIFT | u << WARP_SHIFT | UNNAMED
        store_i64(m.elements + 8 * m.element_count, e)
        m.element_count += 1
    store_i64(m.sets + 8 * m.set_count, start << 16 | (m.element_count - start))
    memo.result = SET | m.set_count << WARP_SHIFT
    m.set_count += 1
    return memo.result
