"""A PERIOD is the accesses of a CTA to its shared memory between two completions of a barrier: it is judged until it
repeats.

If some warps synchronize at one barrier and others at another, such as DMA warps and compute warps, no barrier orders
all accesses, as `sections` requires.  But each iteration of such a loop has the same accesses and barrier operations in
the same order.  The clock of each warp is that of the previous iteration, advanced by the intervals of one iteration.

A period equals the previous one if its accesses are equal and its clocks are advanced: after each operation of a warp,
its clock is the previous one plus the intervals that each warp ADVANCEs in a period.  Let two consecutive periods be
equal, and the second one be judged without a conflict.  Let a third period equal them.  An access X in the third one
conflicts with no other access in it, nor with one in the second period: these pairs are ordered as the same pairs in
the second period, and in the second and the first.  Nor does X conflict with an older access, because that happens
before the same access as X in the second period, by the same warp.  So the third period need not be judged, nor the
ones after it.

A period differs if its accesses or operations come in another order.  It is then judged before the next access: first
the last period as a whole, then this one so far, with each warp's clock at each access.  Cells need not contain
accesses of earlier periods, because the same warps have repeated all of them in the last one.
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
"""key for a change of warps' clocks, without an access"""
MOST_OTHERS = 64
"""completions of other barriers after which periods are counted at another barrier"""
PATIENCE, MOST_BEATS = 3, 6
"""consecutive periods without repetition, after which a period includes one more completion; and the maximum of
completions"""
LOST = 4
"""loss of a machine's LUCK if a foreseen period does not come"""


# -- clocks of warps ---------------------------------------------------------------------------------------------------


@compiled
def copy_clock(m, to, other):
    for u in range(0, m.warp_count, FEW):
        copy_few(to + 8 * u, other + 8 * u)


@compiled
def period_accesses(m, known):
    """Return the number of accesses of the current period so far."""
    end = known.end if m.section == NOTING else number_of(known, m.foreseen)
    return end - period_at(known.periods, known.which).first


@compiled
def mark(m, known):
    """Put a mark at the position of the access that follows a change of clocks.  Until the change occurs, no access
    matches the mark."""
    at = period_accesses(m, known)
    if m.section == NOTING:
        if at and foreseen_at(known.foreseen, known.end - 1).key == CHANGED:
            return at - 1
        foreseen_at(known.foreseen, known.end).key = CHANGED
        known.end += 1
    return at


@compiled
def keep(m, known, w):
    """Record the current clock of a warp; return False if there is no room for it."""
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
    """Return whether a change of the current period equals that of the previous one, advanced by a period."""
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
    """Begin to record the next period."""
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
    """End the recording of a period, of which all accesses are judged; return whether it may repeat."""
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
    """Measure how many intervals each warp advances in a period; return the warps that advance, as bits."""
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
    """Return whether two periods have the same accesses, all by warps in `warps`."""
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
    """Return whether the recorded period equals the previous one."""
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
    """Return whether there is room to judge the accesses of two periods later."""
    if m.set_count + 2 * period.sets > m.set_room or m.element_count + 2 * period.elements > m.element_room:
        return False
    return m.moment_count + 2 * period.moments <= m.moment_room


@compiled
def go_round(m, known):
    """Prepare to compare the next period with the last one; its changes replace those of the period before that."""
    other = period_at(known.periods, 1 - known.which)
    known.change = other.change
    known.clocks = other.clocks
    known.changes = 0
    m.foreseen = known.start
    if not has_room(m, period_at(known.periods, known.which)):
        leave(m, known)


@compiled
def follow(m, known):
    """Begin to follow periods, after the recorded one has repeated."""
    m.section = FOLLOWING
    known.start = known.foreseen + FORESEEN_BYTES * period_at(known.periods, known.which).first
    known.compared = 0
    go_round(m, known)


@compiled
def finish_period(m, known):
    """End a followed period that matched: the next one is compared with its changes."""
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
    """Let a block perform an access that the VM performed, and counted, in the followed periods so far; `leave` counts
    it for all of them."""
    one.key &= ~BY_VM
    repeat_count(m, known, m.foreseen, -known.compared)


@compiled
def made_by_vm(m, known, one):
    """Let the VM perform an access that blocks performed so far; `leave` does not count it."""
    repeat_count(m, known, m.foreseen, known.compared)
    one.key |= BY_VM


# -- accesses that were not judged
# -----------------------------------------------------------------------------------------------


@compiled
def save(m, known, back):
    """Save the clocks of warps, or restore them if `back`."""
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
    """Set the clock of a warp to its value after a change."""
    then = change_at(change, n)
    warp = warp_at(m.warps, then.warp)
    warp.synced = then.synced
    copy_clock(m, warp.clock, clocks + CLOCK * n)


@compiled
def go_back(m, known, period):
    """Set the clocks of warps to their values at the beginning of a period: those at its end, less the intervals of the
    period."""
    for n in range(period.changes):
        know(m, known, n, period.change, period.clocks)
        warp = warp_at(m.warps, change_at(period.change, n).warp)
        warp.synced -= load_i64(known.advance + 8 * change_at(period.change, n).warp)
        for u in range(0, m.warp_count, FEW):
            less_few(warp.clock + 8 * u, known.advance + 8 * u)


@compiled
def judge_repeated(m, known, count, change, clocks, changes):
    """Judge `count` accesses of the followed period, with the warps' clocks at each; leave the clocks after its last
    change."""
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
    """Judge the accesses that cells do not contain: the last period, and `so_far` accesses of this one."""
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
    """Stop following periods, because something else happened: accesses are judged immediately, up to the next
    period."""
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
        if foreseen_at(one, 0).key & BY_VM == 0:  # the VM counts its own accesses, and CHANGED is not one
            repeat_count(m, known, one, others)
    catch_up(m, known, so_far)


# -- events ------------------------------------------------------------------------------------------------------


@compiled
def change(m, known, warps):
    """Handle a change of some warps' clocks."""
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
            m.foreseen += FORESEEN_BYTES  # all changes before the next access have occurred


@compiled
def end_period(m, known):
    """Handle a completion of the barrier that separates periods: decide how the next period is processed."""
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
            if known.misses == PATIENCE and known.every < MOST_BEATS:  # buffers or warps alternate
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
    """Handle the completion of a barrier by some warps of a CTA."""
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
    """Stop recording and following periods until the next completion of a barrier."""
    if m.beat:
        leave(m, known)
    m.beat = 0
    known.seen = 0
