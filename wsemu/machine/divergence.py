"""Lanes of a warp that come apart: the stack of those that wait for their turn, and those that stand at barriers.

An entry holds lanes that run later.  That of a meeting point (`join`) holds all lanes that meet there, and lies below
the entries of those that are still on their way: so the topmost entry that holds a lane tells where it meets others
next, and an entry may run as soon as none of its lanes waits elsewhere.
"""

from __future__ import annotations

import numpy as np

from wsemu.machine.records import compiled, entry_at
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
    """Take an entry out of the stack."""
    warp.depth -= 1
    for e in range(number, warp.depth):
        entry, above = entry_at(warp.stack, e), entry_at(warp.stack, e + 1)
        entry.join = above.join
        entry.resume = above.resume
        entry.mask = above.mask


@compiled
def pop(warp):
    """Take the next runnable entry off the stack: True, with pc and mask set, or False when there is none.  Entries
    stay while lanes of theirs are at a barrier."""
    e = warp.depth - 1
    while e >= 0:
        entry = entry_at(warp.stack, e)
        mask = entry.mask & warp.alive
        if mask & (warp.parked | warp.held):
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
    """Where the lanes of `mask` meet others next: a `join`, or -1."""
    e = warp.depth - 1
    while e >= 0:
        entry = entry_at(warp.stack, e)
        if entry.mask & mask:
            return entry.join
        e -= 1
    return np.int64(-1)


@compiled
def meets(warp, pc, mask):
    """Whether the lanes of `mask` wait at the join at pc for others."""
    return meeting(warp, mask) == pc


@compiled
def diverge(warp, pc, join, target, taken, mask):
    """Part the lanes of `mask` at a branch; the side that falls through runs first."""
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
    """Some lanes stand at an unaligned barrier until the warp's others do, too."""
    entry = entry_at(warp.parked_entries, warp.parked_count)
    warp.parked_count += 1
    entry.resume = pc + 1
    entry.mask = mask
    warp.parked |= mask


@compiled
def unpark(warp):
    """After an unaligned barrier: the groups that stood at it run again, the first one now."""
    for e in range(warp.parked_count - 1, -1, -1):
        entry = entry_at(warp.parked_entries, e)
        push(warp, np.int64(MIDWAY), entry.resume, entry.mask)
    warp.parked = 0
    warp.parked_count = 0
    pop(warp)


@compiled
def unhold(warp):
    """Lanes that waited while others of their warp went on run again: at once, or when those are through."""
    if warp.mask:
        push(warp, np.int64(MIDWAY), warp.wait_pc + 1, warp.held)
    else:
        warp.pc = warp.wait_pc + 1
        warp.mask = warp.held
    warp.held = 0
