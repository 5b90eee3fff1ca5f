"""Accesses of a CTA to its shared memory between two completions of a barrier, a PERIOD, are judged until they repeat.

Where some warps meet at one barrier and others at another, as those that copy and those that compute do, no barrier
orders everything (`sections`).  But each iteration of such a loop has the same accesses and the same operations of
barriers in the same order.  The knowledge of each warp about the others is that of the previous iteration, advanced by
the intervals of one iteration.

A period equals the previous one if its accesses do, and if the knowledge of each warp after each of its operations is
the previous one, plus what each warp ADVANCEs in a period.  Take two consecutive periods of this kind, of which the
second was judged and had no conflict, and a third one that equals these.  An access in it is in no conflict with
another one in it, nor with one in the second: how these two are ordered is as in the second, and between that and the
first.  With any earlier one it is not either: that happens before the same access in the second period, which the same
warp has made before.  So the third one need not be judged, nor those after it.

If accesses come in another order, or one instead of an operation, or the reverse, the period differs.  A differing
period is judged before the next access: first the last period as a whole, then this one so far, with each warp's
knowledge at each access.  Cells need not keep the earlier ones, because the same warps have repeated all accesses in
the last one.
"""

from __future__ import annotations

from wsemu.machine.lowering import compiled
from wsemu.machine.memory.lane_access import matches_steps
from wsemu.machine.memory.shadow_cells import FEW, copy_few, later_few, less_few
from wsemu.machine.records import change_at, foreseen_at, noted_at, period_at, segment_at, warp_at
from wsemu.machine.scalars import load_i64, lowest_bit, store_i64
from wsemu.machine.state import FOLLOWING, NOTHING, NOTING
from wsemu.machine.tier.noted import FORESEEN_BYTES, FULL, judge_noted, number_of, repeat_count, start_noting
from wsemu.machine.tier.section_tables import BY_VM, LUCK, WARP_SHIFT
from wsemu.model.isa import LANES, SHARED

CLOCK = 8 * LANES
"""size of one clock, in bytes"""
CHANGED = -2
"""key for a change of warps' knowledge, without an access"""
MOST_OTHERS = 64
"""times that warps meet elsewhere, after which periods lie between others"""
PATIENCE, MOST_BEATS = 3, 6
"""consecutive periods without repetition, after which one has a completion more; and the maximum"""
LOST = 4
"""loss of a machine's LUCK if a foreseen period does not come"""


# -- what warps know ---------------------------------------------------------------------------------------------------


@compiled
def copy_clock(m, to, other):
    for u in range(0, m.warp_count, FEW):
        copy_few(to + 8 * u, other + 8 * u)


@compiled
def period_accesses(m, known):
    """Return how many accesses of the current period have been performed."""
    end = known.end if m.section == NOTING else number_of(known, m.foreseen)
    return end - period_at(known.periods, known.which).first


@compiled
def mark(m, known):
    """Put a mark in the position of the access before which a change of knowledge comes.  There is no access there, so
    that none is foreseen as long as the change has not come."""
    at = period_accesses(m, known)
    if m.section == NOTING:
        if at and foreseen_at(known.foreseen, known.end - 1).key == CHANGED:
            return at - 1
        foreseen_at(known.foreseen, known.end).key = CHANGED
        known.end += 1
    return at


@compiled
def keep(m, known, w):
    """Keep the knowledge of a warp from now on; return False if there is no room for it."""
    n, warp = known.changes, warp_at(m.warps, w)
    if n == known.change_room or warp.partial or (m.section == NOTING and known.end + 1 >= known.limit):
        return False
    change = change_at(known.change, n)
    change.at = mark(m, known)
    change.warp = w
    change.synced = warp.synced
    copy_clock(m, known.clocks + CLOCK * n, warp.clock)
    known.changes = n + 1
    return True


@compiled
def change_repeats(m, known, n, before):
    """Return whether a change of the current period is that of the previous one, later by a period."""
    if n >= before.changes:
        return False
    now, then = change_at(known.change, n), change_at(before.change, n)
    if now.at != then.at or now.warp != then.warp:
        return False
    if now.synced - then.synced != load_i64(known.advance + 8 * now.warp):
        return False
    clock, other, same = known.clocks + CLOCK * n, before.clocks + CLOCK * n, True
    for u in range(0, m.warp_count, FEW):
        same &= later_few(clock + 8 * u, other + 8 * u, known.advance + 8 * u)
    return same


# -- periods that are noted --------------------------------------------------------------------------------------------


@compiled
def begin_noting(m, known):
    """Note the next period."""
    period = period_at(known.periods, known.which)
    m.foreseen = known.foreseen
    known.start = known.foreseen
    known.spoilt = 0
    known.change = period.change
    known.clocks = period.clocks
    known.changes = 0
    start_noting(m, known, period.first, period.room)


@compiled
def end_noting(m, known):
    """End the recording of a period, with all its accesses judged: return whether it may come again."""
    period = period_at(known.periods, known.which)
    period.count = known.end - period.first
    period.changes = known.changes
    period.moments = m.moment_count - known.moments
    period.sets = m.set_count - known.sets
    period.elements = m.element_count - known.elements
    foreseen_at(known.foreseen, known.end).key = -1
    return period.count > 0 and known.spoilt == 0 and m.suspects == 0


@compiled
def measure(m, known, period, before):
    """By how much what each warp knows of itself advances in a period; which warps' knowledge does, as bits."""
    warps = 0
    for w in range(LANES):
        store_i64(known.advance + 8 * w, 0)
    for n in range(period.changes):
        w = change_at(period.change, n).warp
        own = CLOCK * n + 8 * w
        store_i64(known.advance + 8 * w, load_i64(period.clocks + own) - load_i64(before.clocks + own))
        warps |= 1 << w
    return warps


@compiled
def same_accesses(known, period, before, warps):
    """Return whether two periods have the same ones, all by some warps."""
    for k in range(period.count):
        one, other = foreseen_at(known.foreseen, period.first + k), foreseen_at(known.foreseen, before.first + k)
        if one.key == CHANGED and other.key == CHANGED:
            continue
        key, steps = one.key & ~BY_VM, noted_at(known.noted, period.first + k).steps
        if key != other.key & ~BY_VM or one.first != other.first or warps >> (key >> WARP_SHIFT) & 1 == 0:
            return False
        first = load_i64(steps + 8 * lowest_bit(key & FULL))
        if not matches_steps(steps, first, noted_at(known.noted, before.first + k).steps, key & FULL):
            return False
    return True


@compiled
def repeats(m, known):
    """Return whether the period that has been noted is the same as the one before it."""
    period, before = period_at(known.periods, known.which), period_at(known.periods, 1 - known.which)
    if period.count != before.count or period.changes != before.changes:
        return False
    same = same_accesses(known, period, before, measure(m, known, period, before))
    for n in range(period.changes if same else 0):
        same &= change_repeats(m, known, n, before)
    return same


# -- periods that are followed -----------------------------------------------------------------------------------------


@compiled
def has_room(m, period):
    """For what the accesses of two periods take if they have to be judged."""
    if m.set_count + 2 * period.sets > m.set_room or m.element_count + 2 * period.elements > m.element_room:
        return False
    return m.moment_count + 2 * period.moments <= m.moment_room


@compiled
def go_round(m, known):
    """The next period is likely to be as the last one; its changes lie where those of the one before that did."""
    other = period_at(known.periods, 1 - known.which)
    known.change = other.change
    known.clocks = other.clocks
    known.changes = 0
    m.foreseen = known.start
    if not has_room(m, period_at(known.periods, known.which)):
        leave(m, known)


@compiled
def follow(m, known):
    """The period that was noted has come twice."""
    m.section = FOLLOWING
    known.start = known.foreseen + FORESEEN_BYTES * period_at(known.periods, known.which).first
    known.compared = 0
    go_round(m, known)


@compiled
def finish_period(m, known):
    """End the followed period as foreseen: its changes are those that the next one is compared with."""
    period, other = period_at(known.periods, known.which), period_at(known.periods, 1 - known.which)
    change, clocks = period.change, period.clocks
    period.change = other.change
    period.clocks = other.clocks
    other.change = change
    other.clocks = clocks
    known.compared += 1
    known.luck = min(known.luck + 1, LUCK)
    go_round(m, known)


@compiled
def made_by_block(m, known, one):
    """An access that the VM has made in each period that was followed so far: it has counted it then, and `leave` will
    count it for all of them."""
    one.key &= ~BY_VM
    repeat_count(m, known, m.foreseen, -known.compared)


@compiled
def made_by_vm(m, known, one):
    """The reverse: `leave` will not count it."""
    repeat_count(m, known, m.foreseen, known.compared)
    one.key |= BY_VM


# -- what was not judged -----------------------------------------------------------------------------------------------


@compiled
def save(m, known, back):
    """Keep what warps know, or have it `back`."""
    for w in range(m.warp_count):
        warp, kept = warp_at(m.warps, w), known.saved + CLOCK * w
        if back:
            copy_clock(m, warp.clock, kept)
            warp.synced = load_i64(known.saved + CLOCK * LANES + 8 * w)
        else:
            copy_clock(m, kept, warp.clock)
            store_i64(known.saved + CLOCK * LANES + 8 * w, warp.synced)


@compiled
def know(m, known, n, change, clocks):
    """A warp knows what it did after a change."""
    then = change_at(change, n)
    warp = warp_at(m.warps, then.warp)
    warp.synced = then.synced
    copy_clock(m, warp.clock, clocks + CLOCK * n)


@compiled
def go_back(m, known, period):
    """Warps know what they did when a period began: what they did at its end, less what that advances."""
    for n in range(period.changes):
        know(m, known, n, period.change, period.clocks)
        warp = warp_at(m.warps, change_at(period.change, n).warp)
        warp.synced -= load_i64(known.advance + 8 * change_at(period.change, n).warp)
        for u in range(0, m.warp_count, FEW):
            less_few(warp.clock + 8 * u, known.advance + 8 * u)


@compiled
def judge_repeated(m, known, count, change, clocks, changes):
    """Judge this number of accesses of the followed period, with the warps' knowledge then; after it they have their
    knowledge after its last change."""
    first, n = period_at(known.periods, known.which).first, 0
    for k in range(count):
        while n < changes and change_at(change, n).at <= k:
            know(m, known, n, change, clocks)
            n += 1
        one = known.foreseen + FORESEEN_BYTES * (first + k)
        if foreseen_at(one, 0).key != CHANGED:
            judge_noted(m, known, one)
    while n < changes:
        know(m, known, n, change, clocks)
        n += 1


@compiled
def catch_up(m, known, so_far):
    """Judge the accesses that cells do not contain: the last period, and as many accesses of this one.  The count
    includes them."""
    period = period_at(known.periods, known.which)
    save(m, known, 0)
    if known.compared:
        go_back(m, known, period)
    count = period.count if known.compared else 0
    judge_repeated(m, known, count, period.change, period.clocks, period.changes)
    judge_repeated(m, known, so_far, known.change, known.clocks, known.changes)
    save(m, known, 1)


@compiled
def leave(m, known):
    """Something else happens than was foreseen, or than periods have: up to the next one accesses are judged at
    once."""
    followed, so_far = m.section == FOLLOWING, period_accesses(m, known)
    m.section = NOTHING
    m.foreseen = known.foreseen
    known.noted_before = 0
    if not followed:
        return
    known.luck -= LOST
    period, others = period_at(known.periods, known.which), max(known.compared - 1, 0)
    for k in range(period.count if others else 0):
        one = known.foreseen + FORESEEN_BYTES * (period.first + k)
        if foreseen_at(one, 0).key & BY_VM == 0:  # the VM counts its own, and CHANGED is none
            repeat_count(m, known, one, others)
    catch_up(m, known, so_far)


# -- what happens ------------------------------------------------------------------------------------------------------


@compiled
def change(m, known, warps):
    """Handle a change of some warps' knowledge."""
    period = period_at(known.periods, known.which)
    while warps and m.section != NOTHING:
        w = lowest_bit(warps)
        warps &= warps - 1
        kept, n = keep(m, known, w), known.changes
        if not kept or (m.section == FOLLOWING and not change_repeats(m, known, n - 1, period)):
            leave(m, known)
        elif m.section == FOLLOWING and (
            n == period.changes or change_at(period.change, n).at > period_accesses(m, known)
        ):
            m.foreseen += FORESEEN_BYTES  # all have come that come before the next access


@compiled
def end_period(m, known):
    """The barrier between whose completions periods lie has completed: what becomes of the next one."""
    period = period_at(known.periods, known.which)
    if m.section == FOLLOWING:
        if period_accesses(m, known) == period.count and known.changes == period.changes:
            finish_period(m, known)
        else:
            leave(m, known)
    elif m.section == NOTING and end_noting(m, known):
        if known.noted_before and repeats(m, known):
            known.misses = 0
            follow(m, known)
        else:
            known.luck -= 1
            known.misses += 1
            if known.misses == PATIENCE and known.every < MOST_BEATS:  # buffers take turns, or warps come in turn
                known.misses = 0
                known.every += 1
            known.which = 1 - known.which
            known.noted_before = 1
            begin_noting(m, known)
        return
    if m.section != FOLLOWING:
        known.luck -= 1
        known.noted_before = 0
        begin_noting(m, known)


@compiled
def beat(m, known, number):
    """Handle a meeting of some warps of a CTA at a barrier."""
    shared, bit = segment_at(m.segments, SHARED), 1 << number
    if known.luck < 0 or m.by_lanes or m.suspects or shared.watched or shared.grain < 0:
        stop(m, known)
    elif m.beat == number + 1:
        known.others = 0
        known.beats += 1
        if known.beats == known.every:
            known.beats = 0
            end_period(m, known)
    elif m.beat:
        known.others += 1
        if known.others > MOST_OTHERS:
            stop(m, known)
    elif known.seen & bit:
        m.beat = number + 1
        known.others = 0
        known.beats = 0
        known.which = 0
        known.noted_before = 0
        begin_noting(m, known)
    else:
        known.seen |= bit


@compiled
def stop(m, known):
    """Stop periods until a barrier has been met again."""
    if m.beat:
        leave(m, known)
    m.beat = 0
    known.seen = 0
