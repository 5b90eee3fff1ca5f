"""The barrier of a grid whose CTAs are all resident, on which `cooperative_groups::this_grid().sync()` is built.

One thread of each CTA arrives, continues, and later waits until one thread of every CTA has arrived.  An arrive
releases what its thread has observed.  A wait acquires what was released in the last phase at which its CTA arrived.
An exit does not count as an arrive (cooperative_groups/details/sync.h).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.model.data import dataclass, field
from wsemu.model.outcome import GRID_PLACE, ObjectWait
from wsemu.reference.state import list_lanes
from wsemu.reference.sync.thread_clocks import Clocks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wsemu.reference.run import Cta, CtaGroup
    from wsemu.reference.state import Group
    from wsemu.reference.warp import WarpRun

TWICE, UNARRIVED = 3, 4
"""`what` of a cluster-barrier finding"""
KIND = "barrier of the grid"
WAIT = "grid.wait"
"""the operation at which lanes wait"""


@dataclass(slots=True)
class GridBarrier:
    """The phases of the barrier of a grid."""

    group: CtaGroup
    given: dict[int, Clocks] = field(default_factory=dict)
    """phase -> the released clocks, for the current phase and the previous one"""
    phase: int = 0
    """number of the current phase, from 0"""
    met: dict[int, int] = field(default_factory=dict)
    """CTA -> the last phase at which it arrived"""

    def missing(self) -> list[int]:
        """Return the CTAs that have not arrived in the current phase."""
        return [cta.number for cta in self.group.ctas if self.met.get(cta.number, -1) < self.phase]

    def stands(self, cta: Cta) -> bool:
        """Return whether a wait in a CTA has to wait."""
        return self.met.get(cta.number, -1) == self.phase


def arrive(run: WarpRun, name: str, fields: list[int], lanes: int) -> None:
    """Arrive: the first lane arrives for the CTA; another arrive of the CTA is an error."""
    cta, actor, barrier = run.cta, (run.cta.number, run.warp.number), run.cta.group.grid
    _write_result(run, fields[2], lanes, barrier.phase)
    arrives = 0 if barrier.stands(cta) else lanes & -lanes
    if lanes & ~arrives:
        cta.finding("cluster-barrier", run.group.pc, run.warp.number, lanes & ~arrives, what=TWICE)
    if arrives:
        run.launch.watch.happen("arrive_on", *actor, run.group.pc, GRID_PLACE, barrier.phase, arrives, 1)
        given = barrier.given.setdefault(barrier.phase, Clocks(cta.order.size(cta.number)))
        cta.order.give(actor, arrives, given)
        barrier.met[cta.number] = barrier.phase
    cta.order.begin_interval(actor)
    if not barrier.missing():
        run.launch.watch.happen("phase", *actor, run.group.pc, GRID_PLACE, barrier.phase)
        barrier.given.pop(barrier.phase - 1, None)
        barrier.phase += 1


def wait(run: WarpRun, name: str, fields: list[int], lanes: int) -> bool:
    """Execute a wait; return whether the lanes have to wait."""
    barrier = run.cta.group.grid
    if run.cta.number not in barrier.met:
        run.cta.finding("cluster-barrier", run.group.pc, run.warp.number, lanes, what=UNARRIVED)
    if barrier.stands(run.cta):
        return True
    _accept(run, run.group.pc, lanes)
    return False


def _accept(run: WarpRun, pc: int, lanes: int) -> None:
    """Let lanes continue after a wait, with the clocks that were released in its phase."""
    cta, actor, barrier = run.cta, (run.cta.number, run.warp.number), run.cta.group.grid
    phase = barrier.met.get(cta.number, -1)
    _write_result(run, run.launch.code[pc][2], lanes, phase + 1)
    if phase >= 0:
        run.launch.watch.happen("await", *actor, pc, GRID_PLACE, phase, lanes, lanes.bit_count())
        cta.order.take(actor, lanes, barrier.given[phase])
    cta.order.begin_interval(actor)


def _write_result(run: WarpRun, row: int, lanes: int, phase: int) -> None:
    """Write the result of an operation: bit 31 is the parity of a phase."""
    for lane in list_lanes(lanes):
        run.write(row, "b32", lane, (phase & 1) << 31)


def may_go(run: WarpRun, group: Group) -> bool:
    """Return whether the phase that lanes wait for is complete."""
    return not run.cta.group.grid.stands(run.cta)


def go(run: WarpRun, group: Group) -> None:
    _accept(run, group.pc - 1, group.lanes)


def waits(cta: Cta) -> Iterator[ObjectWait]:
    """Yield the lanes that wait at the barrier when none can continue."""
    barrier = cta.group.grid
    missing, ctas = barrier.missing(), len(cta.group.ctas)
    for warp in cta.warps:
        for group in sorted(warp.parked, key=lambda group: group.lanes & -group.lanes):
            if cta.launch.operation_name(group.pc - 1) == WAIT:
                arrived = ctas - len(missing)
                yield ObjectWait(warp.number, group.lanes, group.pc - 1, KIND, -1, arrived, ctas, tuple(missing))
