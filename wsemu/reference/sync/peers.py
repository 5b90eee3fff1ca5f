"""Check accesses to the shared memory of other CTAs of a cluster, which are valid only while that CTA runs (CUDA C++
Programming Guide, "Distributed Shared Memory"; measured rule L4).

In every schedule, an access must follow, in time, some operation of a thread of that CTA, so that the CTA has started.
It must also precede the exit of some thread of the same CTA.

Before the exit, the access must be complete, not only requested.  A release followed by an acquire ensures completion.
After a relaxed arrive at the cluster's barrier, "there are no memory ordering and visibility guarantees provided for
the memory accesses performed prior to" it (PTX ISA, "barrier.cluster").  Published kernels rely on such arrives
nevertheless, so this case has its own finding.  A copy is complete once a thread has waited for it, however that thread
synchronizes with the CTA.  An operation on an mbarrier is complete once that CTA has observed its phase complete.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.model.grid import FARTHEST
from wsemu.model.isa import SEGMENT_SHIFT, SHARED
from wsemu.model.outcome import RawFinding
from wsemu.reference.state import list_lanes
from wsemu.reference.sync.phases import mark_key
from wsemu.reference.sync.thread_clocks import Mark

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wsemu.reference.memory.bounds import Place
    from wsemu.reference.run import Cta, CtaGroup
    from wsemu.reference.sync.mbarrier import Mbarrier
    from wsemu.reference.warp import WarpRun


def member_rank(run: WarpRun, offset: int) -> int:
    """Return the rank of the CTA whose shared memory contains an offset."""
    return offset >> run.launch.window


def remote_address(run: WarpRun, address: int, member: int) -> int:
    """Return the address of a location in the shared memory of the CTA with this rank; if a launch without clusters has
    no such CTA, an address outside of all memory."""
    if member and not run.launch.clusters:
        return (SHARED << SEGMENT_SHIFT) + (1 << FARTHEST)
    inside = address & ((1 << run.launch.window) - 1)
    return (SHARED << SEGMENT_SHIFT) + (member << run.launch.window) + inside


def go_far(run: WarpRun, places: dict[int, Place]) -> bool:
    """Return whether some of these locations are in the shared memory of another CTA."""
    own = run.launch.grouping.of(run.cta.number)[1]
    return run.launch.clusters and any(
        number == SHARED and member_rank(run, offset) != own for _, number, offset in places.values()
    )


def touch(run: WarpRun, places: dict[int, Place]) -> None:
    """Record that lanes access memory: lane -> location."""
    if not run.launch.clusters or not run.launch.program.asynchronous:
        return
    own = run.launch.grouping.of(run.cta.number)[1]
    others: dict[int, int] = {}
    for lane, (_, number, offset) in places.items():
        if number == SHARED and member_rank(run, offset) != own:
            member = member_rank(run, offset)
            others[member] = others.get(member, 0) | 1 << lane
    for member, lanes in sorted(others.items()):
        reach(run, member, lanes, -1)
        run.cta.order.tick((run.cta.number, run.warp.number))


def reach(run: WarpRun, member: int, lanes: int, agent: int, *, told: bool = True) -> None:
    """Record that lanes, or an agent of a lane, access the memory of the CTA with another rank.  `told` means that a
    release publishes the completion."""
    group, order, actor = run.cta.group, run.cta.order, (run.cta.number, run.warp.number)
    if group.ctas[member] is run.cta:
        return
    size = order.size(run.cta.number) // len(group.ctas)
    threads = slice(member * size, (member + 1) * size)
    early = sum(1 << lane for lane in list_lanes(lanes) if not order.clocks(actor, lane).came.lanes[threads].any())
    if early:
        run.cta.finding("dsmem-before-start", run.group.pc, run.warp.number, early, rank=member)
    number, time = order.number(actor), order.time(actor)
    marks, requested = group.reached.setdefault(member, {}), group.requested.setdefault(member, {})
    for lane in list_lanes(lanes):
        mark = Mark(run.group.pc, number, lane, time, agent)
        marks[mark_key(mark)] = mark
        if told and agent < 0:
            requested[mark_key(mark)] = mark


def reach_phase(group: CtaGroup, member: int, mbarrier: Mbarrier, marks: Iterable[Mark]) -> None:
    """Record an operation that releases nothing on the mbarrier of another CTA.  It is complete once that CTA observes
    the phase complete, or after a later release."""
    loose = group.loose.setdefault(member, {})
    for mark in marks:
        loose[mark_key(mark)] = mark, mbarrier, mbarrier.phase


def report_late(group: CtaGroup) -> None:
    """Report, after all CTAs have ended, accesses that no exit of the target CTA follows, and accesses that may be
    incomplete at that exit."""
    for member, marks in sorted(group.reached.items()):
        cta = group.ctas[member]
        exited = cta.order.join_exited(cta.number)
        late = [mark for mark in marks.values() if not exited.came.of(mark)]
        loose = [mark for mark, of, phase in group.loose.get(member, {}).values() if of.seen < phase]
        threads = {mark_key(mark) for mark in late}
        requested = [mark for mark in (*group.requested[member].values(), *loose) if mark_key(mark) not in threads]
        under_way = [mark for mark in requested if not exited.all.of(mark)]
        _report(group, cta, member, "dsmem-after-exit", late)
        _report(group, cta, member, "dsmem-relaxed-exit", under_way)


def _report(group: CtaGroup, cta: Cta, member: int, code: str, marks: list[Mark]) -> None:
    """Report, for each instruction, the accesses by its lowest warp."""
    by_pc: dict[int, list[Mark]] = {}
    for mark in marks:
        by_pc.setdefault(mark.pc, []).append(mark)
    for pc, found in sorted(by_pc.items()):
        warp = min(mark.warp for mark in found)
        lanes = sum(1 << lane for lane in {mark.lane for mark in found if mark.warp == warp})
        detail = {"rank": member, "other_cta": cta.number}
        last = cta.warps[0].last_pc
        group.launch.report(RawFinding(code, pc, *group.actor(warp), lanes, last, 0, detail))
