"""Checks of accesses to shared memory of other CTAs in a cluster, in compiled code (measured rule L4).

Such an access is valid only while the other CTA runs.  In time, and in every schedule, it must follow an operation of
some thread of the other CTA, which shows that the CTA has started.  It must precede the exit of some thread there.  For
each CTA, the last such access of each thread is kept, and every asynchronous operation that performed one.
"""

from __future__ import annotations

from wsemu.machine.lowering import compiled, set_bits
from wsemu.machine.memory.shadow_cells import behind, put
from wsemu.machine.records import agent_at, record_finding, warp_at
from wsemu.machine.scalars import load_i64, lowest_bit
from wsemu.machine.state import BARRIERS
from wsemu.machine.sync.lane_clocks import (
    async_visible_offset,
    bits_of,
    cluster_row,
    cta_row,
    lane_row,
    time_bits,
    time_of,
    time_offset,
)
from wsemu.machine.sync.phases import set_bit
from wsemu.model.codes import CODE_NUMBERS
from wsemu.model.isa import LANES

BEFORE_START, AFTER_EXIT, RELAXED_EXIT = (
    CODE_NUMBERS[f"dsmem-{name}"] for name in ("before-start", "after-exit", "relaxed-exit")
)
NONE = 1 << 40
"""greater than the number of any instruction"""


@compiled
def access_row(m, member):
    """Return the row with the accesses to a CTA's memory, and their times."""
    return cluster_row(m, 2 + 2 * member)


@compiled
def leaves(m, w, number):
    """Record that an asynchronous operation of a warp reads its own CTA's memory for another CTA."""
    set_bit(m, access_row(m, warp_at(m.warps, w).member), number)


@compiled
def reached_pc(m, member):
    return cluster_row(m, 3 + 2 * member)


@compiled
def has_started(m, w, lane, member):
    """Return whether a lane has observed an operation of some thread of a CTA."""
    own = lane_row(m, w, lane) + time_offset(m)
    for u in range(member * m.cta_warps, (member + 1) * m.cta_warps):
        for q in range(LANES):
            if load_i64(own + 256 * u + 8 * q) > m.base:
                return True
    return False


@compiled
def loose(m, member):
    """Return the address of the intervals of each thread's last operation that released nothing to a CTA.

    An operation remains there until a thread of the other CTA observes the completion of its phase.
    """
    return reached_pc(m, member) + 256 * m.warp_count


@compiled
def loose_pc(m, member):
    return reached_pc(m, member) + 512 * m.warp_count


@compiled
def loose_time(m, member):
    return reached_pc(m, member) + time_offset(m)


@compiled
def reach_phase(m, w, pc, member, lanes):
    """Record lanes that registered in a phase of another CTA and released nothing.

    Their operation is complete when the other CTA observes the completion of the phase, or when a release follows it.
    """
    put(loose(m, member) + 256 * w, lanes, load_i64(warp_at(m.warps, w).clock + 8 * w))
    put(loose_pc(m, member) + 256 * w, lanes, pc)
    put(loose_time(m, member) + 256 * w, lanes, time_of(m, w))


@compiled
def see_phase(m, b):
    """Remove the recorded operations of the phase that a thread has just observed: they are complete."""
    member = b.word >> (m.window - 3)
    for u in range(m.warp_count):
        last, registered = loose_time(m, member) + 256 * u, b.joined[1] + 256 * u
        over = ~behind(last, registered) & ~behind(registered, last)
        put(loose(m, member) + 256 * u, over, 0)


@compiled
def reach(m, w, pc, member, lanes, number, told):
    """Record that lanes access the memory of another CTA.

    If `number` is not 0, the asynchronous operation with this number performs the access. With `told`, a release
    publishes that the access is complete.
    """
    if m.clocks == 0 or member == warp_at(m.warps, w).member:
        return
    early = 0
    for lane in set_bits(lanes):
        early |= (not has_started(m, w, lane, member)) << lane
    if early:
        record_finding(m.report_entry, m.address, (BEFORE_START, pc, w, early, -1, -1), (member, 0, 0, 0, 0))
    if number:
        set_bit(m, access_row(m, member), number)
        return
    m.operations += 1
    put(access_row(m, member) + time_offset(m) + 256 * w, lanes, time_of(m, w))
    put(reached_pc(m, member) + 256 * w, lanes, pc)
    if told:
        put(access_row(m, member) + 256 * w, lanes, load_i64(warp_at(m.warps, w).clock + 8 * w))
        put(access_row(m, member) + async_visible_offset(m, 0) + 256 * w, lanes, pc)
    m.operations += 1


@compiled
def is_told(m, a, member):
    """Return whether an asynchronous operation comes from another CTA; `agents.report_outliving` reports a CTA's own
    operations."""
    return a.warp // m.cta_warps != member


@compiled
def next_of(late, pcs, u, last, best, who, lanes):
    """Return the least instruction above `last` among the last ones of threads `late` of a warp, or `best` if that is
    less; and its warp and lanes."""
    for q in set_bits(late):
        at = load_i64(pcs + 256 * u + 8 * q)
        if at > last and (at < best or (at == best and u <= who)):
            lanes = 1 << q | (lanes if at == best and u == who else 0)
            best, who = at, u
    return best, who, lanes


@compiled
def next_requested(m, member, last):
    """Return the least instruction above `last` among accesses that may be incomplete when the CTA exits.

    Return also the lowest warp that issued it, and its lanes.
    """
    best, who, lanes = NONE, -1, 0
    exited, needed = cta_row(m, member, BARRIERS), access_row(m, member)
    for u in range(m.warp_count):
        late = behind(exited + time_offset(m) + 256 * u, needed + time_offset(m) + 256 * u)
        asked = behind(exited + 256 * u, needed + 256 * u) & ~late
        best, who, lanes = next_of(asked, needed + async_visible_offset(m, 0), u, last, best, who, lanes)
        asked = behind(exited + 256 * u, loose(m, member) + 256 * u) & ~late
        best, who, lanes = next_of(asked, loose_pc(m, member), u, last, best, who, lanes)
    return best, who, lanes


@compiled
def next_late(m, member, last, relaxed):
    """Return the next access that no exit follows; or with `relaxed`, the next one that may be incomplete then."""
    if relaxed:
        return next_requested(m, member, last)
    best, who, lanes = NONE, -1, 0
    exited, needed = cta_row(m, member, BARRIERS), access_row(m, member)
    for u in range(m.warp_count):
        late = behind(exited + time_offset(m) + 256 * u, needed + time_offset(m) + 256 * u)
        best, who, lanes = next_of(late, reached_pc(m, member), u, last, best, who, lanes)
    for word in range(LANES * m.agent_bits):
        unknown = load_i64(needed + bits_of(m) + 8 * word) & ~load_i64(exited + time_bits(m) + 8 * word)
        while unknown:
            a = agent_at(m.agents, m.agent_low + 64 * word + lowest_bit(unknown) - m.base - 1)
            unknown &= unknown - 1
            if is_told(m, a, member) and a.pc > last and (a.pc < best or (a.pc == best and a.warp <= who)):
                lanes = 1 << a.lane | (lanes if a.pc == best and a.warp == who else 0)
                best, who = a.pc, a.warp
    return best, who, lanes


@compiled
def report_late(m):
    """Report, after all CTAs of a group have exited, accesses that no exit follows, and accesses that may be incomplete
    at the exit."""
    for member in range(m.members):
        for relaxed in range(2):
            last = -1
            while True:
                pc, w, lanes = next_late(m, member, last, relaxed)
                if pc == NONE:
                    break
                first = member * m.cta_warps
                record_finding(
                    m.report_entry,
                    m.address,
                    (RELAXED_EXIT if relaxed else AFTER_EXIT, pc, w, lanes, warp_at(m.warps, first).last_pc, first),
                    (member, 0, 0, 0, 0),
                )
                last = pc
