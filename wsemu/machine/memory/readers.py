"""Reads of one location by several warps, in a cell by themselves: warps, and the moment at which they read.

A *moment* is a row of intervals, one for each warp.  A cell of READERS stands for reads since the last write by each of
its warps, in the interval that the cell's moment has for it.  A warp that reads the location in that same interval only
adds its bit, whatever the others have read and however often it reads.  No set of accesses is created (`shadow.py`),
and cells of one moment are judged together though their readers differ.

    bits 63, 61   READERS
    32 - 60       number of the moment
    0 - 31        warps

Lost are the instructions, and the lanes.  Where these matter a cell is written out as a set of reads that are UNNAMED,
and a conflict with one of them has the launch made again without cells of this kind.  Groups of more than 32 warps and
runs that judge lanes exactly have none from the start.
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
"""no cell: only the new read remains"""
RECENT = 4
"""moments that are tried before another is made"""


@compiled
def is_readers(v):
    return v & READERS == READERS


@compiled
def moment_of(m, v):
    return m.moments + MOMENT_BYTES * ((v >> MOMENT_SHIFT) & MOMENTS)


@compiled
def present(m, w):
    """The interval that a warp is in."""
    return load_i64(warp_at(m.warps, w).clock + 8 * w)


@compiled
def takes(m, w, v):
    """Return whether a read by warp w now adds to a cell like v nothing but its bit."""
    return load_i64(moment_of(m, v) + 8 * w) == present(m, w)


@compiled
def others_unknown(m, w, v, warps, floor):
    """Return the warps whose reads, at the moment of v, warp w has not observed, without its own; all of them if they
    belong to another CTA."""
    row = moment_of(m, v)
    if load_i64(row + 8 * lowest_bit(warps)) <= floor:
        return warps
    return behind(warp_at(m.warps, w).clock, row) & warps & ~(1 << w)


@compiled
def is_unsynced(m, w, v):
    """Return True if the lanes of warp w have not met since the moment of v."""
    return m.lockstep == 0 and load_i64(moment_of(m, v) + 8 * w) > warp_at(m.warps, w).synced


@compiled
def unknown(m, w, v, warps, floor):
    """Return the warps whose reads, at the moment of v, warp w has not observed, w itself included if its lanes are
    judged exactly."""
    rest = others_unknown(m, w, v, warps, floor)
    if (warps >> w) & 1 and is_unsynced(m, w, v):
        rest |= 1 << w
    return rest


@compiled
def forgettable(m, w, v, warps, floor):
    """Return whether warp w knows of the reads of some warps, so that a read by it now stands for them.

    It does not stand for reads by its own lanes that need not know of each other.
    """
    if (warps >> w) & 1 and (m.by_lanes or is_unsynced(m, w, v)):
        return False
    return others_unknown(m, w, v, warps, floor) == 0


@compiled
def agrees(m, w, at, row, warps, u, interval):
    """Return whether a moment has warp w in its present interval, u in this one, and `warps` in theirs of `row`."""
    if load_i64(at + 8 * w) != present(m, w) or load_i64(at + 8 * u) != interval:
        return False
    return warps == 0 or (behind(at, row) | behind(row, at)) & warps == 0


@compiled
def moment_with(m, w, row, warps, u, interval):
    """Return the number of a moment with these clocks, a recent one or a new one; -1 if the table is full."""
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
    """Return a cell for a read by warp w now that represents all reads of v by `warps`, by any lanes of w.  Return 0 if
    some are of warps that it has not observed, or there is none."""
    if m.by_lanes or others_unknown(m, w, v, warps, floor):
        return 0
    number = moment_with(m, w, moment_of(m, v), 0, w, present(m, w))
    return 0 if number < 0 else READERS | number << MOMENT_SHIFT | 1 << w


@compiled
def latest(m, w):
    """Return the contents of READERS for the last moment, without warps, if a read by warp w now belongs to this moment
    like its other reads in this interval; NO_MOMENT if not."""
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
    """Return a cell for the reads of v that warp w has not observed, and a read by warp w now; ALONE if w has observed
    all of them; 0 if no cell can hold them."""
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
    """The set of the reads that a cell stands for."""
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
