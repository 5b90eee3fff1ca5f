"""The state of co-resident CTAs, a *group*, in compiled code: named barriers, registers and live warps of the current
one.

Warps are numbered through a group, CTA by CTA. Clocks, shadow memory and phases use these numbers, and the host
converts them to CTA and warp. The shared memories of a group are in one segment, `1 << window` bytes apart, so that an
address of one CTA is valid in all of them.
"""

from __future__ import annotations

from wsemu.machine.lowering import compiled
from wsemu.machine.records import cta_at


@compiled
def enter_cta(m, member):
    """Switch to the state of another CTA of the group."""
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
    """Return the offset of the current CTA's shared memory in its segment."""
    return m.member << m.window
