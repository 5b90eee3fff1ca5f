"""Accesses that wait for the host to let them be made, in compiled code: so their order is that of a script.

Launches without a script run none of this: `access_ordered` replaces `scheduler.access` in the others.  Lanes of one
instruction make their accesses one at a time, since between them those of other warps may come.
"""

from __future__ import annotations

from wsemu.machine.records import call, machine_at, warp_at
from wsemu.machine.scalars import load_u8
from wsemu.machine.state import SCRIPTED, YIELDED


def access_ordered(address, w, pc, registers, mask):
    """Execute the access at pc as `scheduler.access` does; only the lane that was let go executes an ordered access."""
    m = machine_at(address, 0)
    if load_u8(m.ordered + pc) == 0:
        return call(m.ordered_entry, address, w, pc, registers, mask)
    warp = warp_at(m.warps, w)
    if m.let_go:
        lane = 1 << (m.let_go - 1)
        status = call(m.ordered_entry, address, w, pc, registers, lane)
        if status:  # it is made again when the host has done what it needs
            return status
        m.let_go = 0
        warp.served |= lane
    warp.asks = mask & ~warp.served
    if warp.asks == 0:
        warp.served = 0
        return 0
    warp.waits = SCRIPTED
    return YIELDED
