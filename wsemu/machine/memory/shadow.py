"""Shadow memory: for each byte, the last accesses, which must happen before a conflicting new one.

Every cell has two numbers in the form of `shadow_cells.py`: one for the last write, and one for the reads and atomics
since. A cell has the size of the smallest access of its segment so far: an array of float32 has cells of 4
bytes. An access is checked as a whole: neighboring cells with equal contents form a group, which is checked once.

Several reads and atomics form a *set*. Sets are numbered and never change. Adding an access to a set gives another set,
and the result is cached (`MEMO`), because all cells of a tile change in the same way. Reads by several warps rarely
need a set: see `readers.py`. A read that happens before a new read is dropped, because whatever is ordered after the
new read is ordered after both. Likewise, an atomic is dropped if it happens before one of its width. But a read does
not replace an atomic, nor an atomic a read, because they conflict with different accesses.

`conflict` examines a conflict lane by lane, which may be slow. Between lanes of one warp, it is only a suspicion: a
cell has the lanes of an access as a range, and a set does not have them at all. The bytes are then marked, and a second
run decides (`lane_order.py`). The same holds between warps if each lane has its own clock (`lane_clocks.py`).
Reference: Flanagan, Freund, "FastTrack: Efficient and Precise Dynamic Race Detection" (PLDI 2009), section 3.
"""

from __future__ import annotations

from wsemu.machine.lowering import compiled, set_bits
from wsemu.machine.memory.bounds import number_of
from wsemu.machine.memory.cell_bits import (
    ACTORS,
    ATOMIC_BIT,
    BUT_LANES,
    BUT_WARPS,
    GENERIC,
    HIGH_SHIFT,
    INTERVAL_SHIFT,
    INTERVALS,
    LOW_SHIFT,
    MAX_INSTRUCTIONS,
    SET,
    SET_NUMBERS,
    UNNAMED,
    WARP_SHIFT,
    WARPS,
    WHEN,
    WHO,
)
from wsemu.machine.memory.lane_access import AFFINE, SAME, SCATTERED, UNIT, other_banks
from wsemu.machine.memory.readers import (
    ALONE,
    forgettable,
    is_readers,
    latest,
    merge_own_reads,
    renew_read_set,
    takes,
    together,
    unknown,
    written_out,
)
from wsemu.machine.memory.shadow_cells import (
    add,
    all_known,
    copy,
    differ,
    fill,
    fill_unit,
    gather,
    highest_of,
    join_reads,
    lowest_of,
    owned,
    put,
    reread,
    same_key,
    scatter,
    strays,
    uniform,
    union,
    unit,
    widen,
)
from wsemu.machine.records import (
    call,
    instruction_at,
    machine_at,
    memo_at,
    raw_at,
    record_finding,
    sections_at,
    segment_at,
    warp_at,
)
from wsemu.machine.scalars import load_i64, load_u8, lowest_bit, store_i64, store_u8
from wsemu.machine.state import (
    BEFORE,
    GROW,
    GROW_WINDOW,
    REFINE,
    SWEEP,
    TRACKED,
    UNUSED_SHIFT,
    WINDOW,
    WRITTEN,
)
from wsemu.machine.sync.lane_clocks import agent_known, lane_knows
from wsemu.model.codes import CODE_NUMBERS
from wsemu.model.isa import (
    ADDRESS_WRAPPED,
    ATOMIC,
    FIRST_STORE,
    LANES,
    N_CONTROL,
    N_MEMORY,
    NO_STORE,
    OF_CTA,
    READ,
    SCOPES,
    SEGMENT_SHIFT,
    SHARED,
    WRITE,
    opcodes,
)
from wsemu.model.outcome import MOST_SAME_VALUES

(BULK_ZERO,) = opcodes("bulk", "zero")
RACE, INTRA_WARP, SAME_VALUE = (CODE_NUMBERS[c] for c in ("race", "intra-warp-race", "same-value"))
FULL = (1 << LANES) - 1
READS = 1 << 4
"""flag: the cells hold reads"""
CONTIGUOUS, EACH, ONE = range(3)
"""assignment of the 32 current cells to lanes: contiguous; a cell for each lane; the first cell for all lanes"""


@compiled
def set_number(v):
    return (v >> WARP_SHIFT) & SET_NUMBERS


@compiled
def now(m, w, pc):
    """Return the cell of an access by warp w at pc, without its lanes."""
    return load_i64(warp_at(m.warps, w).clock + 8 * w) << INTERVAL_SHIFT | w << WARP_SHIFT | pc


@compiled
def floor_of(m, number):
    """Return the last interval that other CTAs' accesses in cells of a segment may have."""
    return m.base if number != SHARED else 0


@compiled
def is_ordered_before(m, w, v, floor):
    """Return whether the access v of a cell happens before now, except for lanes; accesses of other CTAs up to `floor`
    do not."""
    interval, u = (v >> INTERVAL_SHIFT) & INTERVALS, (v >> WARP_SHIFT) & ACTORS
    if interval <= floor:
        return False
    return u == w or load_i64(warp_at(m.warps, w).clock + 8 * u) >= interval


@compiled
def lanes_know(m, w, v, lane, spread):
    """Return whether lanes `lane` to lane + spread have observed the access v of their own warp to the same bytes."""
    warp = warp_at(m.warps, w)
    interval = (v >> INTERVAL_SHIFT) & INTERVALS
    if interval <= warp.synced or m.lockstep:
        return True
    low, high = (v >> LOW_SHIFT) & 31, (v >> HIGH_SHIFT) & 31
    if low == high and low == lane and spread == 0:
        return True
    if warp.partial == 0:
        return False
    for reader in range(lane, lane + spread + 1):
        for other in range(low, high + 1):
            if other != reader and load_i64(warp.lane_clocks + 256 * reader + 8 * other) < interval:
                return False
    return True


@compiled
def known_one_by_one(m, w, v, lane, spread, floor):
    """Return whether lanes `lane` to lane + spread have observed all lanes that may have performed another warp's
    access v.

    It applies to CTAs in which each lane has its own clock.
    """
    interval, u = (v >> INTERVAL_SHIFT) & INTERVALS, (v >> WARP_SHIFT) & ACTORS
    if m.by_lanes == 0 or interval <= floor:
        return False
    for reader in range(lane, lane + spread + 1):
        if u >= GENERIC:
            if not agent_known(m, w, reader, interval):
                return False
            continue
        for other in range((v >> LOW_SHIFT) & 31, ((v >> HIGH_SHIFT) & 31) + 1):
            if not lane_knows(m, w, reader, u, other, interval):
                return False
    return True


def not_known_one_by_one(address, w, cells, group, floor, log, first, spread):
    """Return the cells of a group whose recorded access, by another warp, is unknown to a lane that accesses them now.
    Called by address."""
    m = machine_at(address, 0)
    bad = group
    for j in set_bits(group):
        if known_one_by_one(m, w, load_i64(cells + 8 * j), first + (j >> log), spread, floor):
            bad &= ~(1 << j)
    return bad


@compiled
def unordered_cells(m, w, cells, v, group, floor, log, first, spread):
    """Return the cells of a group, with the warp and interval of v, whose access does not happen before now."""
    if not is_ordered_before(m, w, v, floor):
        if m.by_lanes == 0:
            return group
        return call(m.known_entry, m.address, w, cells, group, floor, log, first, spread)
    if (v >> WARP_SHIFT) & ACTORS != w:
        return 0
    warp = warp_at(m.warps, w)
    if (v >> INTERVAL_SHIFT) & INTERVALS <= warp.synced or m.lockstep:
        return 0
    rest = group
    if spread == 0:
        rest &= strays(cells, log, first)
    if warp.partial == 0 or rest == 0:
        return rest
    bad = 0
    for j in set_bits(rest):
        if not lanes_know(m, w, load_i64(cells + 8 * j), first + (j >> log), spread):
            bad |= 1 << j
    return bad


@compiled
def width(m, v):
    """Return the bytes per lane of an access."""
    return instruction_at(m.code, v & (MAX_INSTRUCTIONS - 1)).aux & 255


@compiled
def scope(m, v):
    """Return the scope that an atomic names; 0 if it includes all CTAs."""
    return (instruction_at(m.code, v & (MAX_INSTRUCTIONS - 1)).aux >> UNUSED_SHIFT) & SCOPES


@compiled
def loads(m, v):
    """Return whether an atomic represents a load."""
    return (instruction_at(m.code, v & (MAX_INSTRUCTIONS - 1)).aux >> UNUSED_SHIFT) & NO_STORE != 0


@compiled
def cta_of(m, v):
    """Return the CTA, by its position in the group, that performed an access of this group."""
    return ((v >> WARP_SHIFT) & (GENERIC - 1)) // m.cta_warps


@compiled
def is_in_scope(m, pc, v):
    """Return whether the atomic at pc of the current CTA and the atomic v each name a scope that includes the other."""
    scopes = scope(m, pc) | scope(m, v)
    if scopes == 0:
        return True
    if (v >> INTERVAL_SHIFT) & INTERVALS <= m.base:
        return False
    return cta_of(m, v) == m.member or (m.clusters != 0 and scopes & OF_CTA == 0)


@compiled
def clash(m, kind, pc, v):
    """Return whether an access of this kind at pc conflicts with the read or atomic v.  Two atomics conflict if their
    widths differ, or if one is outside of the scope of the other."""
    if kind == WRITE:
        return True
    if v & ATOMIC_BIT == 0:
        return kind == ATOMIC and loads(m, pc) == 0
    if loads(m, v) and (kind == READ or loads(m, pc)):
        return False
    return kind == READ or width(m, v) != width(m, pc) or not is_in_scope(m, pc, v)


@compiled
def alike(m, v, new):
    """Return whether everything that conflicts with the atomic v also conflicts with the atomic `new`."""
    named = scope(m, v)
    if width(m, v) != width(m, new) or named != scope(m, new) or loads(m, new) > loads(m, v):
        return False
    return named == 0 or cta_of(m, v) == cta_of(m, new)


@compiled
def set_clashes(m, w, kind, pc, v, floor):
    """Return whether some access in the set v conflicts with one of this kind now, and may not happen before it."""
    place = load_i64(m.sets + 8 * (set_number(v)))
    synced = warp_at(m.warps, w).synced
    for q in range(place & 0xFFFF):
        e = load_i64(m.elements + 8 * ((place >> 16) + q))
        if clash(m, kind, pc, e):
            if not is_ordered_before(m, w, e, floor):
                return True
            own = (e >> WARP_SHIFT) & ACTORS == w and (e >> INTERVAL_SHIFT) & INTERVALS > synced
            if own and not m.lockstep:  # the set does not have its lanes
                return True
    return False


@compiled
def keeps(m, w, e, new, floor):
    """Return whether element e stays in a set when `new` is added: it does not if it happens before `new` and conflicts
    with the same accesses."""
    if not is_ordered_before(m, w, e, floor):
        return True
    if floor == 0 and (e >> INTERVAL_SHIFT) & INTERVALS <= m.base:  # by an earlier CTA that had the shared memory
        return False
    return (e ^ new) & ATOMIC_BIT != 0 or (e & ATOMIC_BIT != 0 and not alike(m, e, new))


@compiled
def add_element(m, e, floor, foreign):
    """Add e to the set under construction.

    Of other CTAs' accesses, these are sufficient: the first read, and the first atomic of each width and scope,
    separately for atomics that represent loads. Nothing orders any of them before this CTA's actions. `foreign` has a
    bit for each that is in the set.
    """
    if (e >> INTERVAL_SHIFT) & INTERVALS <= floor:
        bit = 1
        if e & ATOMIC_BIT:
            bit = width(m, e) << (8 * (scope(m, e) // OF_CTA) + 24 * loads(m, e))
        if foreign & bit:
            return foreign
        foreign |= bit
    store_i64(m.elements + 8 * m.element_count, e)
    m.element_count += 1
    return foreign


@compiled
def extend_read_set(m, w, old, new, floor):
    """Return the set of `old` (an access or a set) and the access `new`, or 0 if only the new access remains.

    The new access becomes a set of one element if lanes of its warp read before it that it may not have observed: a set
    represents any lanes.
    """
    side = new | (SET if floor else 0)  # a segment's kind decides what happens to other CTAs' accesses
    h = ((old * 0x2127599BF4325C37 + new) * 0x2545F4914F6CDD1D) >> 33
    while True:
        memo = memo_at(m.memo, h & m.memo_mask)
        if memo.old == old and memo.new == side:
            return memo.result
        if memo.old == 0:
            break
        h += 1
    memo.old = old
    memo.new = side
    start = m.element_count
    foreign, loses_lanes = 0, 0
    if old < 0:
        place = load_i64(m.sets + 8 * (set_number(old)))
        for q in range(place & 0xFFFF):
            e = load_i64(m.elements + 8 * ((place >> 16) + q))
            if keeps(m, w, e, new, floor):
                foreign = add_element(m, e, floor, foreign)
            elif (e >> WARP_SHIFT) & ACTORS == w and (e >> INTERVAL_SHIFT) & INTERVALS > warp_at(m.warps, w).synced:
                loses_lanes = 1 - m.lockstep
    elif keeps(m, w, old, new, floor):
        foreign = add_element(m, old, floor, foreign)
    m.set_count += 1  # also if there is no set: there is room for one MEMO per set
    if m.element_count == start and loses_lanes == 0:
        memo.result = 0
        return 0
    add_element(m, new, floor, foreign)
    atomic = 0
    for q in range(start, m.element_count):
        atomic |= load_i64(m.elements + 8 * q) & ATOMIC_BIT
    store_i64(m.sets + 8 * (m.set_count - 1), start << 16 | (m.element_count - start))
    memo.result = SET | atomic | (m.set_count - 1) << WARP_SHIFT
    return memo.result


@compiled
def meet_writes(m, w, pc, cells, mask, kind, floor, shape, log, first, spread, q):
    """Check an access against the last writes in 32 cells."""
    rest = mask
    while rest:
        v = load_i64(cells + 8 * lowest_bit(rest)) & WHEN
        group = same_key(cells, WHEN, v) & rest
        rest &= ~group
        if v:
            bad = unordered_cells(m, w, cells, v, group, floor, log, first, spread)
            if bad:
                call(m.conflict_entry, m.address, w, pc, cells, bad, kind | shape << 2, log, first, q)


@compiled
def known_to_lanes(m, w, cells, v, group, log, first, spread):
    """Return the cells of a group whose recorded access the lanes that access them now have observed, so that it can be
    dropped. The cells are equal except for the lanes, and the access happens before now."""
    warp = warp_at(m.warps, w)
    if (v >> WARP_SHIFT) & ACTORS != w or (v >> INTERVAL_SHIFT) & INTERVALS <= warp.synced:
        return group
    known = 0
    if warp.partial:
        for j in set_bits(group):
            if lanes_know(m, w, load_i64(cells + 8 * j), first + (j >> log), spread):
                known |= 1 << j
    return known


@compiled
def meet_readers(m, w, cells, j, rest, kind, base, floor, log, first, spread):
    """Return the finished cells among cell j and its equals, which hold READERS.

    Cells that need a closer look are replaced by sets, and finished in the next step.
    """
    v = load_i64(cells + 8 * j)
    group = same_key(cells, BUT_WARPS, v & BUT_WARPS) & rest
    if kind == READ and takes(m, w, v):
        add(cells, group, 1 << w)
        return group
    if kind == WRITE and unknown(m, w, v, union(cells, group) & WARPS, floor) == 0:
        return group
    group = same_key(cells, -1, v) & rest
    result = renew_read_set(m, w, v, floor) if kind == READ else 0
    if result == 0:
        put(cells, group, written_out(m, v))
        return 0
    if result == ALONE:
        fill(cells, group, base, log, first, spread)
    else:
        put(cells, group, result)
    return group


@compiled
def meet_reads(m, w, pc, cells, mask, kind, base, floor, shape, log, first, spread, q):
    """Check an access against the reads and atomics in 32 cells, and add it to them unless it is a plain write."""
    rest = mask
    while rest:
        j = lowest_bit(rest)
        if is_readers(load_i64(cells + 8 * j)):
            rest &= ~meet_readers(m, w, cells, j, rest, kind, base, floor, log, first, spread)
            continue
        v = load_i64(cells + 8 * j) & BUT_LANES
        group = same_key(cells, BUT_LANES, v) & rest
        rest &= ~group
        if v == 0:
            if kind != WRITE:
                fill(cells, group, base, log, first, spread)
            continue
        bad = 0
        if v < 0:
            if (kind != READ or v & ATOMIC_BIT) and set_clashes(m, w, kind, pc, v, floor):
                bad = group
        elif clash(m, kind, pc, v):
            bad = unordered_cells(m, w, cells, v, group, floor, log, first, spread)
        if bad:
            call(m.conflict_entry, m.address, w, pc, cells, bad, kind | shape << 2 | READS, log, first, q)
        if kind == WRITE:
            continue
        if v > 0 and not keeps(m, w, v, base, floor):
            known = known_to_lanes(m, w, cells, v, group, log, first, spread)
            if known:
                fill(cells, known, base, log, first, spread)
            if known != group:
                result = together(m, w, v) if kind == READ else 0
                if result:
                    put(cells, group & ~known, result)
                else:
                    widen(cells, group & ~known, base, log, first, spread)
            continue
        result = together(m, w, v) if v > 0 and kind == READ else 0
        if result == 0:
            result = extend_read_set(m, w, v, base, floor)
        if result:
            put(cells, group, result)
        elif m.by_lanes:  # the lanes of this warp in the set are no longer known
            put(cells, group, base | 31 << HIGH_SHIFT)
        else:
            fill(cells, group, base, log, first, spread)


@compiled
def fill_all(cells, base, log, first):
    if log == 0:
        fill_unit(cells, base)
    else:
        fill(cells, FULL, base, log, first, 0)


@compiled
def plain(m, w, cells, v, floor, log, first):
    """Return whether the accesses of 32 cells, which equal v except for the lanes, all happen before now."""
    if not is_ordered_before(m, w, v, floor):
        return False
    if (v >> WARP_SHIFT) & ACTORS != w or (v >> INTERVAL_SHIFT) & INTERVALS <= warp_at(m.warps, w).synced:
        return True
    return owned(cells, log, first) != 0


@compiled
def touch_readers(m, w, reads, kind, base, floor, log, first):
    """Update reads that are READERS for `touch_alike`."""
    v = load_i64(reads)
    if uniform(reads, BUT_WARPS, v) == 0:
        return False
    if kind == READ and takes(m, w, v):
        add(reads, FULL, 1 << w)
        return True
    warps = union(reads, FULL) & WARPS
    if kind == READ:
        if forgettable(m, w, v, warps, floor):
            fill_all(reads, base, log, first)
            return True
        result = merge_own_reads(m, w, v, warps, floor)
        if result:
            put(reads, FULL, result)
        return result != 0
    if unknown(m, w, v, warps, floor):
        return False
    put(reads, FULL, 0)
    return True


@compiled
def reads_alike(kind):
    """Return the bits in which reads must agree; for a write, the instructions of the reads do not matter."""
    return WHO if kind == WRITE else BUT_LANES


@compiled
def touch_alike(m, w, writes, reads, kind, base, floor, log, first):
    """Perform the usual case of an access by a whole warp: 32 cells with equal contents, and no conflict.

    Return False, and do nothing, for any other access.
    """
    v = load_i64(writes) & WHEN
    if uniform(writes, WHEN, v) == 0 or (v and not plain(m, w, writes, v, floor, log, first)):
        return False
    if is_readers(load_i64(reads)):
        if not touch_readers(m, w, reads, kind, base, floor, log, first):
            return False
        if kind == WRITE:
            fill_all(writes, base, log, first)
        return True
    v = load_i64(reads) & BUT_LANES
    bits = reads_alike(kind)
    if v & ATOMIC_BIT or uniform(reads, bits, v) == 0:
        return False
    if kind == READ and v < 0:
        if m.by_lanes:
            return False
        result = extend_read_set(m, w, v, base, floor)
        if result:
            put(reads, FULL, result)
            return True
    elif v < 0:
        return False
    elif v and not plain(m, w, reads, v, floor, log, first):
        result = together(m, w, v) if kind == READ else 0
        if result == 0:
            return False
        put(reads, FULL, result)
        return True
    if kind == READ:
        fill_all(reads, base, log, first)
        return True
    if v:
        put(reads, FULL, 0)
    fill_all(writes, base, log, first)
    return True


@compiled
def behind(m, w, v, floor):
    """Return whether the access v of a cell happens before now, whichever lanes performed it."""
    own = (v >> WARP_SHIFT) & ACTORS == w
    return is_ordered_before(m, w, v, floor) and not (
        own and (v >> INTERVAL_SHIFT) & INTERVALS > warp_at(m.warps, w).synced
    )


@compiled
def touch_known(m, w, writes, reads, kind, base, floor, log):
    """Touch 32 << log cells, at most 128, for an access by a whole warp with contiguous lanes.

    The warp must have observed the recorded accesses, with all their lanes, and must not conflict. Return False, and do
    nothing, otherwise.
    """
    warp = warp_at(m.warps, w)
    clock, synced, fours = warp.clock, warp.synced, LANES // 4 << log
    shift = INTERVAL_SHIFT
    if m.by_lanes or log > 2:
        return False
    v = load_i64(writes) & WHEN
    alike = log == 0 and uniform(writes, WHEN, v) != 0
    if alike and v and not behind(m, w, v, floor):
        return False
    if not alike and all_known(writes, fours, shift, clock, w, floor, synced) == 0:
        return False
    if kind == READ and log == 0 and join_reads(reads, w, latest(m, w), base):
        return True
    if kind == WRITE:
        if all_known(reads, fours, shift, clock, w, floor, synced) == 0:
            return False
    elif reread(reads, fours, shift, clock, w, floor, synced, latest(m, w), base, log, m.lanes_scratch) == 0:
        return False
    for q in range(1 << log):
        at = 8 * LANES * q
        if kind == WRITE:
            put(reads + at, FULL, 0)
            fill_all(writes + at, base, log, q << (5 - log))
        else:
            copy(reads + at, m.lanes_scratch + at)
    return True


@compiled
def touch_side_by_side(m, w, writes, reads, kind, base, floor, log):
    """Perform the usual cases of an access by a whole warp with contiguous lanes to 32 << log cells.

    Return False, and do nothing, if the access needs a closer look.
    """
    if log == 0 and touch_alike(m, w, writes, reads, kind, base, floor, log, log):
        return True
    return touch_known(m, w, writes, reads, kind, base, floor, log)


@compiled
def touch(m, w, pc, writes, reads, mask, kind, base, floor, shape, log, first, spread, q):
    """Check and record an access to the cells in `mask` of 32, whose last writes and reads are at these addresses."""
    meet_writes(m, w, pc, writes, mask, kind, floor, shape, log, first, spread, q)
    meet_reads(m, w, pc, reads, mask, kind, base, floor, shape, log, first, spread, q)
    if kind == WRITE:
        fill(writes, mask, base, log, first, spread)
        if same_key(reads, -1, 0) & mask != mask:
            put(reads, mask, 0)


@compiled
def values_differ(registers, i, lane, other, size):
    """Return whether two lanes of a store have different values."""
    n = (i.aux >> 8) & 255
    each = size // n
    for j in range(n):
        row = registers + i.d + 256 * j
        for q in range(each):
            if load_u8(row + lane * each + q) != load_u8(row + other * each + q):
                return True
    return False


@compiled
def same_bytes(m, w, pc, registers, i, lanes, winner, size):
    """Report the lanes of a store that write other values than lane `winner` to the same bytes; the winner's remain."""
    rest = lanes & ~(1 << winner)
    agree = 0
    for lane in set_bits(rest):
        if values_differ(registers, i, lane, winner, size):
            call(m.conflict_entry, m.address, w, pc, 0, 1 << lane, WRITE, 0, winner, 0)
        else:
            agree |= 1 << lane
    if agree and m.strict and m.raw_count < MOST_SAME_VALUES:  # it is only a note, and leaves room for findings
        record_finding(m.report_entry, m.address, (SAME_VALUE, pc, w, agree, -1, -1), (0, 0, 0, 0, 0))


@compiled
def highest_bit(mask):
    n = 31
    while not (mask >> n) & 1:
        n -= 1
    return n


@compiled
def settle(addresses, lost, offset, grain, cells):
    """Add the other lanes to cells that several lanes of an access share, and that hold only one of these lanes."""
    for lane in set_bits(lost):
        place = cells + 8 * ((load_i64(addresses + 8 * lane) + offset) >> grain)
        v = load_i64(place)
        low, high = min((v >> LOW_SHIFT) & 31, lane), max((v >> HIGH_SHIFT) & 31, lane)
        store_i64(place, (v & BUT_LANES) | low << LOW_SHIFT | high << HIGH_SHIFT)


@compiled
def put_back(m, addresses, mask, offset, grain, cells, from_, distinct):
    """Write the cells of scattered lanes back, and return the lanes that share a cell with a later lane."""
    scatter(addresses, mask, offset, grain, cells, from_)
    if distinct or (mask == FULL and uniform(from_, -1, load_i64(from_))):
        return 0
    there = m.lanes_scratch + 8 * 3 * LANES
    gather(addresses, mask, offset, grain, cells, there)
    lost = differ(from_, there) & mask
    settle(addresses, lost, offset, grain, cells)
    return lost


@compiled
def touch_scattered(m, w, pc, registers, i, bias, mask, kind, base, floor, size, segment, distinct):
    """Check an access of scattered lanes: gather their cells, check these together, and write them back."""
    grain = segment.grain
    addresses = registers + i.a
    writes, reads = m.lanes_scratch, m.lanes_scratch + 8 * LANES
    for q in range(size >> grain):
        offset = bias + (q << grain)
        gather(addresses, mask, offset, grain, segment.writes, writes)
        gather(addresses, mask, offset, grain, segment.reads, reads)
        none = 0
        alike = mask == FULL and kind != ATOMIC
        if not (alike and touch_alike(m, w, writes, reads, kind, base, floor, none, none)):
            touch(
                m, w, pc, writes, reads, mask, kind, base, floor, EACH, none, none, none, q
            )  # fmt: skip
        put_back(m, addresses, mask, offset, grain, segment.reads, reads, distinct)
        if kind == WRITE:
            lost = put_back(m, addresses, mask, offset, grain, segment.writes, writes, distinct)
            while lost and q == 0:
                lane = lowest_bit(lost)
                lost &= lost - 1
                sharing = 0
                for other in set_bits(mask):
                    if load_i64(addresses + 8 * other) == load_i64(addresses + 8 * lane):
                        sharing |= 1 << other
                lost &= ~sharing
                same_bytes(m, w, pc, registers, i, sharing, highest_bit(sharing), size)


@compiled
def read_one(m, w, writes, reads, new, floor):
    """Check a read of one cell by all lanes, in the usual cases, without vectors; False if it needs a closer look."""
    warp = warp_at(m.warps, w)
    v = load_i64(writes)
    if v and not is_ordered_before(m, w, v, floor):
        return False
    if (v >> WARP_SHIFT) & ACTORS == w and (v >> INTERVAL_SHIFT) & INTERVALS > warp.synced:
        return False
    v = load_i64(reads)
    if v & ATOMIC_BIT:
        return False
    if is_readers(v):
        result = renew_read_set(m, w, v, floor)
        if result:
            store_i64(reads, new if result == ALONE else result)
        return result != 0
    if v < 0:
        if m.by_lanes:
            return False
        result = extend_read_set(m, w, v, new & BUT_LANES, floor)
        store_i64(reads, result if result else new)
        return True
    if v and not is_ordered_before(m, w, v, floor):
        result = together(m, w, v & BUT_LANES)
        if result:
            store_i64(reads, result)
        return result != 0
    own = v and (v >> WARP_SHIFT) & ACTORS == w and (v >> INTERVAL_SHIFT) & INTERVALS > warp.synced
    if own and warp.partial:
        return False
    if own:
        low = min(v & (31 << LOW_SHIFT), new & (31 << LOW_SHIFT))
        high = max(v & (31 << HIGH_SHIFT), new & (31 << HIGH_SHIFT))
        new = (new & BUT_LANES) | low | high
    store_i64(reads, new)
    return True


@compiled
def touch_one(m, w, pc, registers, i, offset, mask, kind, base, floor, size, segment):
    """Check an access of lanes that have one address, at this offset of the segment."""
    grain = segment.grain
    lane = lowest_bit(mask)
    spread = highest_bit(mask) - lane
    new = base | lane << LOW_SHIFT | (lane + spread) << HIGH_SHIFT
    m.sharing = mask
    for q in range(size >> grain):
        cell = (offset >> grain) + q
        writes, reads = segment.writes + 8 * cell, segment.reads + 8 * cell
        if kind != READ or not read_one(m, w, writes, reads, new, floor):
            one = 1
            touch(m, w, pc, writes, reads, one, kind, base, floor, ONE, 0, lane, spread, q)
    if kind == WRITE and spread:
        same_bytes(m, w, pc, registers, i, mask, lane + spread, size)


@compiled
def missing_room(m, pc, number, segment, size):
    """Return the action of the host that must precede the check of an access of this size, or 0."""
    if segment.grain < 0 or size < 1 << segment.grain or segment.tracked != TRACKED:
        m.fault_pc = pc
        m.fault_warp = number
        return REFINE if segment.tracked == TRACKED else WRITTEN
    if m.set_count > m.set_room or m.element_count > m.element_room or m.record_count > m.record_room:
        return SWEEP
    return SWEEP if m.moment_count > m.moment_room else 0


def track(address, w, pc, registers, bias, mask, how, number):
    """Check and record one access to a tracked segment; return 0, or what the host must do before the access."""
    m = machine_at(address, 0)
    segment = segment_at(m.segments, number)
    i = instruction_at(m.code, pc)
    size = i.aux & 255
    kind = ATOMIC if i.op >= N_MEMORY else WRITE if i.op >= FIRST_STORE else READ
    status = missing_room(m, pc, number, segment, size)
    if status:
        return status
    grain = segment.grain
    floor, base = floor_of(m, number), now(m, w, pc)
    if kind == ATOMIC:
        base |= ATOMIC_BIT
    lane = lowest_bit(mask)
    offset = load_i64(registers + i.a + 8 * lane) + bias
    log = ((i.aux >> 16) & 255) - grain
    if how == SCATTERED and log == 0:
        how = UNIT if unit(registers + i.a, mask, lane, grain) else SCATTERED
    low, n = range_of(registers + i.a, bias, mask, how, offset, lane, grain, log)
    if not note_range(segment, low, n):
        m.wanted = GROW_WINDOW
        return GROW
    if how == UNIT:
        cell = (offset >> grain) - (lane << log)
        alike = mask == FULL and kind != ATOMIC
        writes, reads = segment.writes + 8 * cell, segment.reads + 8 * cell
        done = alike and touch_side_by_side(m, w, writes, reads, kind, base, floor, log)
        for q in range(0 if done else 1 << log):
            writes, reads = segment.writes + 8 * (cell + LANES * q), segment.reads + 8 * (cell + LANES * q)
            first = q << (5 - log)
            if alike and log and touch_alike(m, w, writes, reads, kind, base, floor, log, first):
                continue
            touch(
                m, w, pc, writes, reads, mask, kind, base, floor,
                CONTIGUOUS, log, first, 0, 0,
            )  # fmt: skip
    elif how == SAME:
        touch_one(m, w, pc, registers, i, offset, mask, kind, base, floor, size, segment)
    else:
        distinct = how == AFFINE or (size == 4 and mask == FULL and other_banks(registers + i.a, bias))
        touch_scattered(m, w, pc, registers, i, bias, mask, kind, base, floor, size, segment, distinct)
    if segment.watched and (m.lockstep == 0 or m.asynchronous):
        call(m.lanes_entry, address, w, pc, registers, bias, mask, kind, base, number)
    return 0


@compiled
def range_of(addresses, bias, mask, how, offset, lane, grain, log):
    """Return the first cell of an access and the number of cells up to its last cell; `lane` is its lowest lane."""
    cell = offset >> grain
    if how == SAME:
        return cell, 1 << log
    if how == UNIT:
        lanes = LANES
        if mask != FULL:
            lanes = highest_bit(mask) + 1 - lane
        return cell, lanes << log
    cell = (lowest_of(addresses, mask, lane) + bias) >> grain
    return cell, ((highest_of(addresses, mask, lane) + bias) >> grain) - cell + (1 << log)


@compiled
def note_range(segment, cell, n):
    """Record that `n` cells from `cell` on are touched; return False if the window has no room for them.

    A large segment has a *window* instead of all its cells. It holds the cells of one CTA, begins near the CTA's first
    access, and is cleared as the CTA reaches its cells. This is sufficient if CTAs run one after another, and no two of
    them touch the same cell. If a CTA accesses a cell before the end of its predecessors, or beyond the window, the
    launch restarts without windows.
    """
    low, high = max(cell, 0), min(cell + n, ((segment.bytes - 1) >> segment.grain) + 1)
    if segment.window_writes:
        if segment.low <= low and high <= segment.high:
            return True
        return widen_window(segment, low, high)
    segment.low = min(segment.low, low)
    segment.high = max(segment.high, high)
    return True


@compiled
def widen_window(segment, low, high):
    """Clear the cells from `low` to `high` - 1, which this CTA has not touched before."""
    if low < segment.passed:
        return False
    if segment.high == 0:
        segment.window = low - BEFORE
        segment.writes = segment.window_writes - 8 * segment.window
        segment.reads = segment.window_reads - 8 * segment.window
        segment.low = low
        segment.high = low
    if low < segment.window or high > segment.window + WINDOW:
        return False
    zero, every = 0, FULL
    at = segment.low
    while at > low:
        at -= LANES
        put(segment.writes + 8 * at, every, zero)
        put(segment.reads + 8 * at, every, zero)
    at = segment.high
    while at < high:
        put(segment.writes + 8 * at, every, zero)
        put(segment.reads + 8 * at, every, zero)
        at += LANES
    segment.low = min(segment.low, low)
    segment.high = max(segment.high, high)
    return True


@compiled
def record_conflict(m, code, pc, w, lane, v, v_pc, address, kind, other_kind, size):
    """Record a conflict of this access, once for each other instruction.

    The lowest lane, address and other warp of the first such access give the location.
    """
    if m.sections:
        sections_at(m.sections, 0).spoilt = 1
    if v_pc == UNNAMED:  # the launch must restart
        m.unnamed = 1
        m.budget = 0
        return
    other = (v >> WARP_SHIFT) & (GENERIC - 1)
    interval = (v >> INTERVAL_SHIFT) & INTERVALS
    agent = (v >> WARP_SHIFT) & ACTORS >= GENERIC
    op = instruction_at(m.code, pc).op
    own_agent = op >= N_CONTROL and op != BULK_ZERO
    rank = (interval > m.base) * GENERIC + other  # another CTA first
    if code == INTRA_WARP or m.by_lanes:  # the report distinguishes executions of the other instruction
        rank = rank << 32 | ((v >> LOW_SHIFT) & 31 if agent else interval)
    found = number_of(m, code, pc, v_pc)
    if found < 0:
        return
    r = raw_at(m.raw, found)
    if r.count == 0:
        r.lanes = 0
        r.detail[8] = m.by_lanes and interval > m.base
        r.detail[10] = LANES
    if m.by_lanes and interval > m.base:  # counted separately: it is decided lane by lane
        if r.apart != m.serial:
            r.apart = m.serial
            r.count += 1
        if r.count > 1 or r.serial == m.serial:
            return
    elif r.serial != m.serial:
        r.serial = m.serial
        r.count += 1
    if r.count > 1:
        return
    r.lanes |= 1 << lane
    lower = lane < r.detail[10] or (
        lane == r.detail[10] and (address < r.detail[0] or (address == r.detail[0] and rank < r.detail[11]))
    )
    if not lower:
        return
    r.cta = m.group
    r.warp = w
    r.other_warp = other
    r.detail[0] = address
    r.detail[1] = kind
    r.detail[2] = other_kind
    r.detail[3] = size
    r.detail[4] = load_i64(warp_at(m.warps, w).clock + 8 * w)  # for an agent, the host removes it
    r.detail[5] = interval
    r.detail[6] = (v >> LOW_SHIFT) & 31
    r.detail[7] = (v >> HIGH_SHIFT) & 31
    r.detail[9] = own_agent | agent << 1
    r.detail[10] = lane
    r.detail[11] = rank


@compiled
def conflict_of_lane(m, w, pc, v, lane, spread, address, kind, reads, floor, size):
    """Record the conflict of lane `lane` of this access with the access v of its cell, if there is one."""
    if reads and not clash(m, kind, pc, v):
        return
    other_kind = WRITE
    if reads:
        other_kind = ATOMIC if v & ATOMIC_BIT else READ
    if is_ordered_before(m, w, v, floor):
        if (v >> WARP_SHIFT) & ACTORS == w and not lanes_know(m, w, v, lane, spread):
            mark(m, address)
        return
    if m.by_lanes and (v >> INTERVAL_SHIFT) & INTERVALS > m.base:
        if not known_one_by_one(m, w, v, lane, spread, floor):
            mark(m, address)
        return
    code = RACE
    record_conflict(m, code, pc, w, lane, v, v & (MAX_INSTRUCTIONS - 1), address, kind, other_kind, size)


@compiled
def mark(m, address):
    """Mark the cell at this address: lanes of a warp may conflict there."""
    segment = segment_at(m.segments, address >> SEGMENT_SHIFT)
    if segment.marks:
        m.suspects = 1
        start = segment.marks + (address & ((1 << SEGMENT_SHIFT) - 1))
        for q in range(1 << segment.grain):
            store_u8(start + q, 1)


def conflict(address, w, pc, cells, group, how, log, first, q):
    """Examine the conflicts of an access with the cells of `group` one by one. Called by address.

    `how` is kind | shape << 2 | READS. If `cells` is 0, lanes `group` and `first` of one store have different values
    for the same bytes.
    """
    m = machine_at(address, 0)
    i = instruction_at(m.code, pc)
    registers = warp_at(m.warps, w).registers
    size = i.aux & 255
    kind, shape, reads = how & 3, (how >> 2) & 3, how & READS
    if cells == 0:
        lane = lowest_bit(group)
        place = (load_i64(registers + i.a + 8 * lane) + i.imm) & ~ADDRESS_WRAPPED
        v = w << WARP_SHIFT | first << LOW_SHIFT | first << HIGH_SHIFT
        v |= load_i64(warp_at(m.warps, w).clock + 8 * w) << INTERVAL_SHIFT
        record_conflict(m, INTRA_WARP, pc, w, lane, v, -1, place, kind, kind, size)
        return 0
    for j in set_bits(group):
        v = load_i64(cells + 8 * j)
        for lane in set_bits(m.sharing if shape == ONE else 1 << (first + (j >> log))):
            place = (load_i64(registers + i.a + 8 * lane) + i.imm) & ~ADDRESS_WRAPPED
            number = place >> SEGMENT_SHIFT
            floor = floor_of(m, number)
            grain = segment_at(m.segments, number).grain
            place += ((j & ((1 << log) - 1)) + q) << grain
            if v >= 0:
                conflict_of_lane(m, w, pc, v, lane, 0, place, kind, reads, floor, size)
                continue
            where = load_i64(m.sets + 8 * (set_number(v)))
            for n in range(where & 0xFFFF):
                e = load_i64(m.elements + 8 * ((where >> 16) + n))
                e |= 31 << HIGH_SHIFT  # its lanes are unknown
                conflict_of_lane(m, w, pc, e, lane, 0, place, kind, reads, floor, size)
    return 0
