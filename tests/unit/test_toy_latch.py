"""The design, tried: a synchronisation object in a folder of the tests plugs in at the places that docs/architecture.md
counts.

Its operations by `isa.enter` (1), what they mean in `toys/latch.py` for the reference interpreter (2) and in
`toys/latch_vm.py` for the VM (3), with the state of each (4, 5), whom it lets wait (6, 7); the events are those of all
objects.  The programs of these tests are graphs: a kernel's names and the PTX would be three more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.unit.async_kernels import BAR, DATA, ENGINES, Kernel, Ran, launch
from tests.unit.toys import latch, latch_vm
from tests.unit.toys.latch_vm import COUNT_DOWN, WAIT
from wsemu.checkers import deadlock
from wsemu.evidence.places import Places
from wsemu.machine import outside
from wsemu.model import isa
from wsemu.model.errors import UnsupportedError
from wsemu.model.outcome import ObjectWait, Trace
from wsemu.model.settings import Settings
from wsemu.reference import asynchronous
from wsemu.report.terminal import render_finding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wsemu.frontend.assemble.graph import Register

pytestmark = pytest.mark.usefixtures("latches")
BOTH = pytest.mark.parametrize("engine", [*ENGINES])


@pytest.fixture
def latches() -> Iterator[None]:
    """Latches, in place for one test."""
    latch.enter()
    yield
    latch.leave()


def by_lane_0(k: Kernel, operation: str, tag: str) -> None:
    k.when(k.lanes_below(1), lambda: k.do(operation, immediate=1, tag=tag))


def handed_over(*, stores_first: bool = True, producers: int = 2) -> Kernel:
    """Warps 1 and 2 store and count a latch down; warp 0 waits for it, and adds up what they stored."""
    k = Kernel()

    def produce() -> None:
        steps: list[Callable[[], object]] = [
            lambda: k.put(DATA, k.emit("add.b32", k.tid, k.c(100))), lambda: by_lane_0(k, COUNT_DOWN, "count_down"),
        ]  # fmt: skip
        # the other lanes' stores come before lane 0's count by this
        steps.insert(1, lambda: k.do("syncwarp", k.c(0), k.c(0), k.c(0xFFFFFFFF)))
        for step in steps if stores_first else reversed(steps):
            step()

    def from_warp(number: int) -> Register:
        return k.emit("ld.b32", k.by_thread(k.at(DATA + 128 * number)), tag="get")

    def consume() -> None:
        k.do(WAIT, immediate=1, tag="wait")
        k.out(k.emit("add.b32", from_warp(1), from_warp(2)))

    k.warps(consume, *[produce] * producers)
    return k


@BOTH
def test_a_toy_latch_holds_its_waits_until_the_count_is_met(engine: str) -> None:
    ran = launch(handed_over(), threads=96, engine=engine)
    assert ran.is_clean()
    assert ran.result() == [(100 + 32 + n) + (100 + 64 + n) for n in range(32)]
    assert [event.kind for event in ran.events("arrive_on", "phase", "await")] == [
        "arrive_on", "arrive_on", "phase", "await",
    ]  # fmt: skip


@BOTH
def test_a_toy_latch_orders_what_was_done_before_its_count_down_and_nothing_after_it(engine: str) -> None:
    ran = launch(handed_over(stores_first=False), threads=96, engine=engine)
    assert (ran.status, set(ran.codes)) == ("done", {"race"})
    assert {raw.detail["address"] - BAR for raw in ran.outcome.findings} == {DATA + 128, DATA + 256}


@BOTH
def test_a_toy_latch_that_lacks_a_count_is_told_in_the_deadlock(engine: str) -> None:
    ran = launch(handed_over(producers=1), threads=64, engine=engine)
    assert ran.status == "deadlock"
    wait = ObjectWait(0, 0xFFFFFFFF, ran.pc["wait"], "latch", 1, 1, 2)
    assert ran.outcome.object_waits == [wait]
    places = Places(ran.program, (1, 1, 1), (64, 1, 1), ran.outcome, [])
    (found,) = deadlock.examine(places, Settings(), lambda accesses, cta=None: Trace())
    assert found.message == "warp 0 waits for latch 1, which has 1 of 2"
    assert found.notes == ["1 of 1 live warps wait; warp 1 has exited"]
    assert found.help == "look for the missing arrivals at latch 1: 1 more, before the wait or in parallel with it"
    assert [(step.does, step.what, step.mark) for step in found.steps] == [("latch.wait", "latch 1", "waits")]
    assert "latch 1" in render_finding(found)


@pytest.mark.parametrize("kernel", [handed_over, lambda: handed_over(stores_first=False),
                                    lambda: handed_over(producers=1)])  # fmt: skip
def test_engines_agree_on_a_toy_latch(kernel: Callable[[], Kernel]) -> None:
    def of(ran: Ran) -> tuple[object, ...]:
        outcome = ran.outcome
        return (
            outcome.status, outcome.findings, outcome.executions, outcome.warps, outcome.object_waits,
            ran.events("arrive_on", "phase", "await"), ran.arrays,
        )  # fmt: skip

    one, other = (of(launch(kernel(), threads=96, engine=engine)) for engine in ENGINES)
    assert one == other


def test_an_operation_without_compiled_meaning_is_refused() -> None:
    latch_vm.leave()
    with pytest.raises(UnsupportedError, match=r"`latch\.count_down` has no compiled meaning"):
        launch(handed_over(), threads=96, engine="vm")
    latch_vm.enter()


def test_tables_are_as_they_were_without_it() -> None:
    latch.leave()
    assert WAIT not in asynchronous.STANDING
    assert "latch" not in asynchronous.FAMILIES
    assert not outside.FAMILIES
    assert len(isa.NAMES) == len(isa.OPCODE) == len(isa.OPERATIONS) == isa.N_OPERATIONS
    latch.enter()


def test_an_operation_is_entered_once() -> None:
    with pytest.raises(ValueError, match=r"'latch.wait' is entered twice"):
        isa.enter(WAIT, "", "", "")
    with pytest.raises(ValueError, match=r"'latch.count_down' was not entered last"):
        isa.leave(COUNT_DOWN)
