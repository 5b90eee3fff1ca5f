"""Diverged lanes of a warp: the stack of lanes that run later, and the groups of lanes that are parked at operations.

An entry holds lanes that run later.  The entry of a reconvergence point (`join`) contains all lanes that meet there,
and is below the entries of those that have not arrived.  So the topmost entry that contains a lane shows its next
reconvergence point, and an entry may run as soon as none of its lanes waits elsewhere.

Lanes are *parked* at a barrier or warp-wide operation that waits for other lanes of the warp.  PTX does not guarantee
reconvergence: if parked lanes wait for lanes that wait for them at a join, the lanes at the join continue alone
(`go_past`).
"""

from __future__ import annotations

from wsemu.machine.lowering import compiled
from wsemu.machine.records import entry_at, flow_at
from wsemu.machine.scalars import lowest_bit
from wsemu.machine.state import MIDWAY


@compiled
def push(warp, join, resume, mask):
    entry = entry_at(warp.stack, warp.depth)
    warp.depth += 1
    entry.join = join
    entry.resume = resume
    entry.mask = mask


@compiled
def remove(warp, number):
    """Remove an entry from the stack."""
    warp.depth -= 1
    for e in range(number, warp.depth):
        entry, above = entry_at(warp.stack, e), entry_at(warp.stack, e + 1)
        entry.join = above.join
        entry.resume = above.resume
        entry.mask = above.mask


@compiled
def pop(warp):
    """Take the next runnable entry off the stack and set pc and mask; return False if there is none.  An entry stays
    while some of its lanes are parked."""
    e = warp.depth - 1
    while e >= 0:
        entry = entry_at(warp.stack, e)
        mask = entry.mask & warp.alive
        if mask & warp.parked:
            e -= 1
            continue
        if mask:
            warp.pc = entry.resume
            warp.mask = mask
            warp.midway = entry.join == MIDWAY
        remove(warp, e)
        if mask:
            return True
        e -= 1
    return False


@compiled
def meeting(warp, mask):
    """Return the next reconvergence point of the lanes of `mask`, or -1."""
    e = warp.depth - 1
    while e >= 0:
        entry = entry_at(warp.stack, e)
        if entry.mask & mask:
            return entry.join
        e -= 1
    return -1


@compiled
def meets(warp, pc, mask):
    """Return whether pc is the join at which the lanes of `mask` wait for others."""
    return meeting(warp, mask) == pc


@compiled
def diverge(warp, pc, join, target, taken, mask):
    """Split the lanes of `mask` at a branch; the fall-through side runs first."""
    if join >= 0 and not meets(warp, join, mask):
        push(warp, join, join + 1, mask)
    if pc + 1 == join:
        warp.mask = taken
        warp.pc = target
        return
    if target != join:
        push(warp, join, target, taken)
    warp.mask = mask & ~taken
    warp.pc = pc + 1


@compiled
def park(warp, pc, mask):
    """Park some lanes at the operation at pc until the other lanes of the warp are parked or have exited."""
    entry = entry_at(warp.parked_entries, warp.parked_count)
    warp.parked_count += 1
    entry.resume = pc + 1
    entry.mask = mask
    warp.parked |= mask


@compiled
def sort_parked(warp):
    """Sort parked groups by their lanes, so that the order of arrival does not matter."""
    for n in range(1, warp.parked_count):
        e = n
        while e > 0:
            entry, before = entry_at(warp.parked_entries, e), entry_at(warp.parked_entries, e - 1)
            if lowest_bit(before.mask) < lowest_bit(entry.mask):
                break
            resume, mask = entry.resume, entry.mask
            entry.resume = before.resume
            entry.mask = before.mask
            before.resume = resume
            before.mask = mask
            e -= 1


@compiled
def alike(warp, one, other):
    """Return whether two groups of lanes have the same reconvergence points."""
    for e in range(warp.depth):
        mask = entry_at(warp.stack, e).mask
        if (mask & one != 0) != (mask & other != 0):
            return False
    return True


@compiled
def unite(m, warp, e, lanes):
    """Merge, into parked group e, the later groups of `lanes` that continue from the same position."""
    entry = entry_at(warp.parked_entries, e)
    for f in range(e + 1, warp.parked_count):
        other = entry_at(warp.parked_entries, f)
        if other.mask & lanes and other.resume == entry.resume and alike(warp, entry.mask, other.mask):
            entry.mask |= other.mask
            other.mask = 0
            flow_at(m.flow, entry.resume).count -= 1  # the next instruction was counted for each group


@compiled
def unpark(m, warp, lanes):
    """Let parked groups of lanes continue: the first one now, the others from the stack."""
    for e in range(warp.parked_count):
        if entry_at(warp.parked_entries, e).mask & lanes:
            unite(m, warp, e, lanes)
    for e in range(warp.parked_count - 1, -1, -1):
        entry = entry_at(warp.parked_entries, e)
        if entry.mask & lanes:
            push(warp, MIDWAY, entry.resume, entry.mask)
            entry.mask = 0
    kept = 0
    for e in range(warp.parked_count):
        entry = entry_at(warp.parked_entries, e)
        if entry.mask:
            to = entry_at(warp.parked_entries, kept)
            to.resume = entry.resume
            to.mask = entry.mask
            kept += 1
    warp.parked_count = kept
    warp.parked &= ~lanes
    pop(warp)


@compiled
def go_past(warp):
    """Let lanes that wait at a join for parked lanes continue now, without these; return the parked lanes, or 0 if no
    lane waits for them."""
    return go_past_some(warp, -1)


@compiled
def go_past_some(warp, some):
    """Let lanes that wait at a join for lanes in `some` continue without these."""
    elsewhere = warp.parked
    e = warp.depth - 1
    while e >= 0:
        entry = entry_at(warp.stack, e)
        free = entry.mask & warp.alive & ~elsewhere
        if free and entry.mask & some:
            entry.mask &= ~free
            warp.pc = entry.resume
            warp.mask = free
            warp.midway = 0
            return entry.mask & warp.alive
        elsewhere |= entry.mask
        e -= 1
    return 0


@compiled
def behind(warp, some):
    """Return the lanes that wait at a join for parked lanes in `some`."""
    lanes = 0
    elsewhere = warp.parked
    e = warp.depth - 1
    while e >= 0:
        entry = entry_at(warp.stack, e)
        if entry.mask & some:
            lanes |= entry.mask & warp.alive & ~elsewhere
        elsewhere |= entry.mask
        e -= 1
    return lanes
