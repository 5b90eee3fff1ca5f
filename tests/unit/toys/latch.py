"""A latch: `count_down` takes from its count and goes on, `wait` lets nobody pass before that is 0.

A toy, by which tests show what a synchronisation object takes: its operations, and what they mean to both
engines.  A CTA has four latches of two counts each.  The definition is that of C++'s `std::latch`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.unit.toys import latch_vm
from tests.unit.toys.latch_vm import COUNT, COUNT_DOWN, LATCHES, WAIT
from wsemu.model import isa
from wsemu.model.outcome import ObjectWait
from wsemu.reference import asynchronous
from wsemu.reference.asynchronous import Family, Standing
from wsemu.reference.sync.thread_clocks import Clocks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wsemu.model.outcome import EventKind
    from wsemu.reference.run import Cta
    from wsemu.reference.state import Group
    from wsemu.reference.warp import WarpRun


class Latch:
    """One of a CTA."""

    def __init__(self, cta: Cta) -> None:
        self.arrived = 0
        self.given = Clocks(cta.order.size(cta.number))


def enter() -> None:
    """Put latches into the instruction set and the reference interpreter."""
    isa.enter(COUNT_DOWN, "", "", "one less of latch imm, by each lane")
    isa.enter(WAIT, "", "", "until nothing is left of latch imm")
    meanings = {COUNT_DOWN: count_down, WAIT: wait}
    asynchronous.enter(Family("latch", meanings, {WAIT: Standing(may_go, go)}, latches, waits=waits))
    latch_vm.enter()


def leave() -> None:
    latch_vm.leave()
    asynchronous.leave("latch")
    isa.leave(WAIT)
    isa.leave(COUNT_DOWN)


def latches(cta: Cta) -> list[Latch]:
    return [Latch(cta) for _ in range(LATCHES)]


def count_down(run: WarpRun, name: str, fields: list[int], lanes: int) -> None:
    """It gives what its lanes know; whoever comes last completes the latch."""
    cta, number = run.cta, fields[6]
    latch, actor = cta.objects["latch"][number], (cta.number, run.warp.number)
    missing = COUNT - latch.arrived
    latch.arrived += lanes.bit_count()
    happen(run, "arrive_on", number, lanes, lanes.bit_count())
    cta.order.give(actor, lanes, latch.given)
    if 0 < missing <= lanes.bit_count():
        happen(run, "phase", number, lanes)
    cta.order.begin_interval(actor)


def wait(run: WarpRun, name: str, fields: list[int], lanes: int) -> bool:
    """Whether they have to stand; if not, they take what was given."""
    if run.cta.objects["latch"][fields[6]].arrived < COUNT:
        return True
    pass_by(run, fields[6], lanes)
    return False


def may_go(run: WarpRun, group: Group) -> bool:
    return bool(run.cta.objects["latch"][run.launch.code[group.pc - 1][6]].arrived >= COUNT)


def go(run: WarpRun, group: Group) -> None:
    pass_by(run, run.launch.code[group.pc - 1][6], group.lanes)


def pass_by(run: WarpRun, number: int, lanes: int) -> None:
    """The wait ends."""
    actor = run.cta.number, run.warp.number
    happen(run, "await", number, lanes)
    run.cta.order.take(actor, lanes, run.cta.objects["latch"][number].given)
    run.cta.order.begin_interval(actor)


def happen(run: WarpRun, kind: EventKind, number: int, lanes: int, amount: int = 0) -> None:
    """For the trace: of a latch there is one generation."""
    watch, pc = run.launch.watch, run.group.pc
    watch.happen(kind, run.cta.number, run.warp.number, pc, number, 0, lanes, amount)


def waits(cta: Cta) -> Iterator[ObjectWait]:
    for warp in cta.warps:
        for group in warp.parked:
            if cta.launch.operation_name(group.pc - 1) == WAIT:
                number = cta.launch.code[group.pc - 1][6]
                arrived = cta.objects["latch"][number].arrived
                yield ObjectWait(warp.number, group.lanes, group.pc - 1, "latch", number, arrived, COUNT)
