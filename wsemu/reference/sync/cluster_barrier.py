"""The barrier of a cluster: `barrier.cluster.arrive`, `barrier.cluster.wait` (PTX ISA 9.7.13.4).

Each thread arrives, continues, and later waits until all live threads of the cluster have arrived.  A thread arrives
once per phase, and again only after its wait.  An arrive releases what its thread has observed, unless it is relaxed; a
wait acquires what was released in its phase.  A thread that exits no longer counts, and its exit releases nothing
(measured rule L3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.model.data import dataclass, field
from wsemu.model.isa import CLUSTER_ALIGNED, RELAXED
from wsemu.model.outcome import CLUSTER_PLACE, ObjectWait
from wsemu.reference.state import list_lanes
from wsemu.reference.sync.thread_clocks import Clocks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wsemu.reference.run import Cta, CtaGroup
    from wsemu.reference.state import Group
    from wsemu.reference.warp import WarpRun

TWICE, UNARRIVED, PART = range(3)
"""`what` of a cluster-barrier finding"""
KIND = "cluster barrier"
WAIT = "cluster.wait"
"""the operation at which lanes wait"""


@dataclass(slots=True)
class ClusterBarrier:
    """The current phase, and the previous one."""

    group: CtaGroup
    given: Clocks | None = None
    before: Clocks | None = None
    phase: int = 0
    arrived: dict[tuple[int, int], int] = field(default_factory=dict)
    """(CTA, warp) -> lanes that have arrived in the current phase"""
    passed: dict[tuple[int, int], int] = field(default_factory=dict)
    """(CTA, warp) -> lanes that arrived in the previous phase and have not waited"""

    def open(self) -> Clocks:
        """Return the clocks released in the current phase."""
        if self.given is None:
            first = self.group.ctas[0]
            self.given = Clocks(first.order.size(first.number))
        return self.given

    def missing(self) -> int:
        """Return the number of live threads that have not arrived."""
        return sum(
            (warp.alive & ~self.arrived.get((cta.number, warp.number), 0)).bit_count()
            for cta in self.group.ctas
            for warp in cta.warps
        )

    def threads(self) -> int:
        """Return the number of live threads."""
        return sum(warp.alive.bit_count() for cta in self.group.ctas for warp in cta.warps)

    def complete(self, run: WarpRun, pc: int) -> None:
        """Complete the phase if no arrive is missing."""
        if self.missing() or not any(self.arrived.values()):
            return
        run.launch.watch.happen("phase", run.cta.number, run.warp.number, pc, CLUSTER_PLACE, self.phase)
        self.before, self.given = self.open(), None
        self.passed, self.arrived = self.arrived, {}
        self.phase += 1


def arrive(run: WarpRun, name: str, fields: list[int], lanes: int) -> None:
    """Let lanes arrive and continue."""
    cta, actor, barrier = run.cta, (run.cta.number, run.warp.number), run.cta.group.barrier
    _check_whole_warp(run, fields, lanes)
    twice = lanes & (barrier.arrived.get(actor, 0) | barrier.passed.get(actor, 0))
    if twice:
        cta.finding("cluster-barrier", run.group.pc, run.warp.number, twice, what=TWICE)
    lanes &= ~twice
    relaxed = fields[7] & RELAXED
    if lanes:
        place = run.group.pc, CLUSTER_PLACE, barrier.phase, lanes
        run.launch.watch.happen("arrive_on", *actor, *place, lanes.bit_count())
        if relaxed:
            for lane in list_lanes(lanes):
                barrier.open().came.join(cta.order.clocks(actor, lane).came)
        else:
            cta.order.give(actor, lanes, barrier.open())
        barrier.arrived[actor] = barrier.arrived.get(actor, 0) | lanes
    if relaxed:
        cta.order.tick(actor)
    else:
        cta.order.begin_interval(actor)
    barrier.complete(run, run.group.pc)


def wait(run: WarpRun, name: str, fields: list[int], lanes: int) -> bool:
    """Execute a wait; return whether the lanes have to wait."""
    cta, actor, barrier = run.cta, (run.cta.number, run.warp.number), run.cta.group.barrier
    _check_whole_warp(run, fields, lanes)
    strangers = lanes & ~(barrier.arrived.get(actor, 0) | barrier.passed.get(actor, 0))
    if strangers:
        cta.finding("cluster-barrier", run.group.pc, run.warp.number, strangers, what=UNARRIVED)
    if lanes & barrier.arrived.get(actor, 0):
        return True
    _accept(run, run.group.pc, lanes)
    return False


def _accept(run: WarpRun, pc: int, lanes: int) -> None:
    """Let lanes continue after a wait, with the clocks that were released in its phase."""
    cta, actor, barrier = run.cta, (run.cta.number, run.warp.number), run.cta.group.barrier
    passed = lanes & barrier.passed.get(actor, 0)
    if passed and barrier.before is not None:
        run.launch.watch.happen("await", *actor, pc, CLUSTER_PLACE, barrier.phase - 1, passed)
        cta.order.take(actor, passed, barrier.before)
        barrier.passed[actor] &= ~passed
    cta.order.begin_interval(actor)


def may_go(run: WarpRun, group: Group) -> bool:
    """Return whether the phase that lanes wait for is complete."""
    return not group.lanes & run.cta.group.barrier.arrived.get((run.cta.number, run.warp.number), 0)


def go(run: WarpRun, group: Group) -> None:
    _accept(run, group.pc - 1, group.lanes)


def exits(run: WarpRun, pc: int) -> None:
    """Record exits: the barrier stops counting these threads."""
    run.cta.group.barrier.complete(run, pc)


def _check_whole_warp(run: WarpRun, fields: list[int], lanes: int) -> None:
    if fields[7] & CLUSTER_ALIGNED and lanes != run.warp.alive:
        run.cta.finding("cluster-barrier", run.group.pc, run.warp.number, lanes, what=PART)


def waits(cta: Cta) -> Iterator[ObjectWait]:
    """Yield the lanes that wait at the barrier when none can continue."""
    barrier = cta.group.barrier
    for warp in cta.warps:
        for group in sorted(warp.parked, key=lambda group: group.lanes & -group.lanes):
            if cta.launch.operation_name(group.pc - 1) == WAIT:
                threads = barrier.threads()
                arrived = threads - barrier.missing()
                yield ObjectWait(warp.number, group.lanes, group.pc - 1, KIND, -1, arrived, threads)
