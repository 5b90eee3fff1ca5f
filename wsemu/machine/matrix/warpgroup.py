"""A `wgmma` as one operation of the four warps of a warpgroup, in compiled code.

It is complete when all four warps have issued it and its reads have been performed. When a warp has waited for a group,
it has observed that the reads of all four warps in that group are complete. In time, its wait follows the operations of
each of the four before that warp's last `wgmma` of the group. The wait does not order their other memory accesses. A
commit waits until all warps of the four that have not exited have committed as often, so that no warp waits for an
operation that is not issued yet. PTX ISA, "wgmma.mma_async", "wgmma.wait_group"; measured rule W14.
"""

from __future__ import annotations

from wsemu.machine.lowering import compiled
from wsemu.machine.memory.shadow_cells import join_bits
from wsemu.machine.records import warp_at
from wsemu.machine.scalars import lowest_bit
from wsemu.machine.state import GROUP_ROWS, KEPT_GROUPS
from wsemu.machine.sync.lane_clocks import (
    bits_of,
    copy_row,
    give_times,
    group_row,
    heads,
    join_times,
    learn_times,
    refresh,
    row,
    set_bit,
    time_bits,
)
from wsemu.model.isa import LANES
from wsemu.model.matrix import OLDEST_GROUP

COMMITTED, OWN, GROUPS = 0, 1, 5
"""rows of a warpgroup: what preceded the committed `wgmma`; for each warp, what preceded all its own; for each group,
in turn, a copy of the first row at its commit"""


@compiled
def first_of(m, w):
    """Return the first warp of a warp's warpgroup; -1 if the warpgroup is incomplete."""
    number = w % m.cta_warps
    return w - (number & 3) if (number | 3) < m.cta_warps else -1


@compiled
def warpgroup_row(m, first, number):
    """Return one of the rows of a warpgroup."""
    of_cta = m.cta_warps >> 2
    slot = (first // m.cta_warps) * of_cta + ((first % m.cta_warps) >> 2)
    return group_row(m, slot * GROUP_ROWS + number)


@compiled
def note_issue(m, w, agent):
    """Record that a warp issues a `wgmma`, whose reads are an agent."""
    first = first_of(m, w)
    if first < 0:
        return
    to = warpgroup_row(m, first, OWN + w - first)
    give_times(m, to, w, warp_at(m.warps, w).alive)
    at = agent - m.agent_low
    set_bit(to + bits_of(m), at)
    set_bit(to + time_bits(m), at)


@compiled
def join_reads(m, to, other):
    """Join into a row the asynchronous operations whose completion another row has."""
    for u in range(m.agent_bits):
        join_bits(to + bits_of(m) + 256 * u, other + bits_of(m) + 256 * u)


@compiled
def note_commit(m, w):
    """Record that a warp commits what it has issued."""
    first = first_of(m, w)
    if first >= 0:
        to, own = warpgroup_row(m, first, COMMITTED), warpgroup_row(m, first, OWN + w - first)
        join_times(m, to, own)
        join_reads(m, to, own)


@compiled
def all_have_committed(m, w):
    """Return whether all warps of a warp's warpgroup that have not exited have committed as often as it has; if so,
    close its last group."""
    first = first_of(m, w)
    if first < 0:
        return True
    own = warp_at(m.warps, w).committed
    for u in range(first, first + 4):
        other = warp_at(m.warps, u)
        if other.alive and other.committed < own:
            return False
    head = warp_at(m.warps, first)
    if head.closed < own:
        head.closed = own
        if m.clocks:
            copy_row(m, warpgroup_row(m, first, GROUPS + own % KEPT_GROUPS), warpgroup_row(m, first, COMMITTED))
    return True


@compiled
def know_group(m, w, left):
    """Record that the lanes of a warp have waited for all groups of its warpgroup except the last `left` ones.  If
    KEPT_GROUPS or more were closed since, record nothing: the lanes know only their own part."""
    first = first_of(m, w)
    warp = warp_at(m.warps, w)
    end = warp.committed - left
    if first < 0 or end <= 0 or warp_at(m.warps, first).closed - end >= KEPT_GROUPS:
        return
    given = warpgroup_row(m, first, GROUPS + end % KEPT_GROUPS)
    learn_times(m, w, warp.alive, given)
    rest = heads(m, w, warp.alive)
    while rest:
        join_reads(m, row(m, LANES * w + lowest_bit(rest)), given)
        rest &= rest - 1
    refresh(m, w)


@compiled
def start(m):
    """Reset the groups of all warps at the start of a group of CTAs."""
    for w in range(m.warp_count):
        warp = warp_at(m.warps, w)
        warp.multiplied = 0
        warp.grouped = 0
        warp.grouped_pc = -1
        warp.unfenced = 0
        warp.committed = 0
        warp.closed = 0
        for age in range(OLDEST_GROUP + 1):
            warp.flying[age] = 0
