"""Accesses that wait until the host lets a lane perform them, in compiled code, so that they follow a script.

Only launches with a script run this: there, `access_ordered` replaces `scheduler.access`. Lanes of one instruction
perform their accesses one at a time, because accesses of other warps may come in between.
"""

from __future__ import annotations

from wsemu.machine.records import call, machine_at, warp_at
from wsemu.machine.scalars import load_u8
from wsemu.machine.state import SCRIPTED, YIELDED


def access_ordered(address, w, pc, registers, mask):
    """Execute the access at pc as `scheduler.access` does; of an ordered access, only the lane that the host lets
    go."""
    m = machine_at(address, 0)
    if load_u8(m.ordered + pc) == 0:
        return call(m.ordered_entry, address, w, pc, registers, mask)
    warp = warp_at(m.warps, w)
    if m.let_go:
        lane = 1 << (m.let_go - 1)
        status = call(m.ordered_entry, address, w, pc, registers, lane)
        if status:  # the lane repeats the access after the host has acted
            return status
        m.let_go = 0
        warp.served |= lane
    warp.asks = mask & ~warp.served
    if warp.asks == 0:
        warp.served = 0
        return 0
    warp.waits = SCRIPTED
    return YIELDED
