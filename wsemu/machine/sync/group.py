"""The co-resident CTAs of a group, in compiled code: the current one's named barriers, registers and live warps.

Warps are numbered through a group: those of its first CTA, of its second.  Clocks, shadow memory and phases use these
numbers; the host converts them to CTA and warp.  The shared memories of a group lie in one segment, `1 << window` bytes
apart, so that an address of one is good in all of them.
"""

from __future__ import annotations

from wsemu.machine.lowering import compiled
from wsemu.machine.records import cta_at


@compiled
def enter_cta(m, member):
    """Make the state of another CTA of the group current."""
    left = cta_at(m.ctas, m.member)
    left.live_warps = m.live_warps
    left.pool = m.pool
    cta = cta_at(m.ctas, member)
    m.member = member
    m.live_warps = cta.live_warps
    m.pool = cta.pool
    m.barriers = cta.barriers
    m.exited = cta.exited
    m.first_warp = cta.first_warp


@compiled
def own_shared(m):
    """Return where the shared memory of the current CTA begins in its segment."""
    return m.member << m.window
