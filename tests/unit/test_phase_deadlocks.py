"""Deadlocks at mbarriers and on registers: what is missing, in numbers, who could bring it, and where it went."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import wsemu
from tests.unit.async_program import EMPTY, FULL
from tests.unit.async_program import places as program
from wsemu import cuda, ptx
from wsemu.checkers import deadlock
from wsemu.model.finding import Finding
from wsemu.model.isa import EXPECT
from wsemu.model.outcome import ALL_LANES, Event, Outcome, PhaseState, PhaseWait, Trace, WarpState
from wsemu.model.settings import Settings
from wsemu.report.terminal import render_finding

if TYPE_CHECKING:
    from pathlib import Path

    from wsemu.evidence.places import Places

PIPELINE: tuple[Any, ...] = (
    ("mbarrier.wait.parity", 38),  # 0: the producer waits for an empty buffer
    ("mbarrier.arrive", 40, EXPECT),  # 1: expects
    ("bulk.load", 41),  # 2: copies
    ("exit", 42),  # 3
    ("mbarrier.wait.parity", 50),  # 4: the consumer waits for a full one
    ("mbarrier.arrive", 52),  # 5: gives it back
    ("exit", 53),  # 6
)
PRODUCER, CONSUMER = 1, 0


def warp(number: int, pc: int, *, alive: bool = True) -> WarpState:
    standing = ((pc, ALL_LANES),) if alive else ()
    return WarpState(number, pc, ALL_LANES if alive else 0, standing=standing)


def found(places: Places, *events: Event) -> Finding:
    (made,) = deadlock.examine(places, Settings(), lambda accesses, cta=None: Trace([*events]))
    assert render_finding(made)
    assert Finding.model_validate_json(made.model_dump_json()) == made
    return made


def event(kind: Any, warp: int, pc: int, place: int, phase: int, amount: int) -> Event:
    return Event(kind, 0, warp, 1, pc, place, phase, 1, amount=amount)


@pytest.fixture
def stuck(tmp_path: Path) -> Places:
    """The consumer waits for `full[1]`, whose copies brought half of what was expected; the producer has exited."""
    outcome = Outcome(
        "deadlock", cta=0, warps=[warp(CONSUMER, 4), warp(PRODUCER, 3, alive=False)],
        phases=[PhaseState(FULL + 8, 2, 0, 1, 4096, 0)],
        phase_waits=[PhaseWait(CONSUMER, ALL_LANES, 4, FULL + 8, 2)],
    )  # fmt: skip
    return program(tmp_path, *PIPELINE, outcome=outcome)


HALF = (
    event("expect", PRODUCER, 1, FULL + 8, 2, 8192),
    event("arrive_on", PRODUCER, 1, FULL + 8, 2, 1),
    event("copy", PRODUCER, 2, FULL, -1, 4096),
    event("credit", PRODUCER, 2, FULL + 8, 2, 4096),
)


def test_missing_bytes_are_told_in_numbers(stuck: Places) -> None:
    made = found(stuck, *HALF)
    assert made.message == (
        "`full[1]`, phase 2: 4,096 bytes missing, 0 arrivals missing; warp 1, which copied to it before, has exited"
    )
    assert made.notes == [
        "`full[1]`, phase 2: warp 1 expected 8,192 bytes at line 40, copies wrote 4,096 (line 41)",
        "1 of 1 live warps wait; warp 1 has exited",
    ]
    assert made.help == "expect 4,096 bytes on `full[1]`, not 8,192 (line 40): the copies of a phase write 4,096"
    assert made.sites[0].text == "warp 0 waits for `full[1]` phase 2: 4,096 bytes missing, 0 arrivals missing"
    (step,) = made.steps
    assert (step.does, step.what, step.mark) == ("mbarrier.wait", "full[1] phase 2", "waits")


def test_bytes_that_went_to_another_mbarrier_are_found_there(stuck: Places) -> None:
    stuck.outcome.phases.append(PhaseState(FULL, 3, 1, 1, -4096, 0))
    made = found(stuck, *HALF, event("credit", PRODUCER, 2, FULL, 3, 4096))
    there = "`full[0]` received 4,096 bytes that it does not expect (line 41)"
    assert made.notes[1] == there
    assert made.help == f"check the mbarrier that the copies name: {there}"


def test_missing_arrivals_are_told_with_who_came_the_phase_before(stuck: Places) -> None:
    stuck.outcome.phases[:] = [PhaseState(FULL + 8, 2, 2, 3, 0, 0)]
    before = [event("arrive_on", n, 5, FULL + 8, 1, 1) for n in (0, 1)]
    made = found(stuck, *before, event("arrive_on", 2, 1, FULL + 8, 2, 1))
    assert made.message.startswith("`full[1]`, phase 2: 2 of 3 arrivals missing; warp")
    assert "`full[1]`, phase 2: warp 2 arrived at line 40" in made.notes
    history = "`full[1]`: in phase 1 warp 0 arrived at line 52; warp 1 arrived at line 52, and has exited"
    assert history in made.notes
    assert made.help is not None
    assert made.help.startswith("make the arrivals per phase match the count of `full[1]`, 3 (")


def test_two_that_wait_for_each_other_are_a_cycle_and_the_first_parity_is_a_pointer(tmp_path: Path) -> None:
    outcome = Outcome(
        "deadlock", cta=0, warps=[warp(CONSUMER, 4), warp(PRODUCER, 0)],
        phases=[PhaseState(FULL, 0, 1, 1, 0, 0), PhaseState(EMPTY, 0, 1, 1, 0, 0)],
        phase_waits=[
            PhaseWait(CONSUMER, ALL_LANES, 4, FULL, 0),
            PhaseWait(PRODUCER, ALL_LANES, 0, EMPTY, 0),
        ],
    )  # fmt: skip
    made = found(program(tmp_path, *PIPELINE, outcome=outcome))
    assert made.message == (
        "warp 0 waits on `full[0]` phase 0 for warp 1, which waits on `empty[0]` phase 0 for warp 0"
    )
    assert made.notes[0] == "cycle: warp 0 -> `full[0]` phase 0 -> warp 1 -> `empty[0]` phase 0 -> warp 0"
    assert made.help == (
        "one side must start: if the buffer of `empty[0]` is initially free, use parity 1 for the first wait on line "
        "38: it returns immediately"
    )


def test_a_part_of_a_warp_is_told_by_its_lanes(stuck: Places) -> None:
    stuck.outcome.phase_waits[:] = [PhaseWait(CONSUMER, 0xFFFF, 4, FULL + 8, 2)]
    assert found(stuck, *HALF).sites[0].text.startswith("lanes 0-15 of warp 0 wait for `full[1]` phase 2")


def test_without_a_trace_nothing_is_said_of_who_did_what(stuck: Places) -> None:
    (made,) = deadlock.examine(stuck, Settings(), lambda accesses, cta=None: Trace([], complete=False))
    lacks = "`full[1]`, phase 2: 4,096 bytes missing, 0 arrivals missing"
    assert made.message == f"{lacks}; no running warp can still write the bytes"
    assert made.notes == ["1 of 1 live warps wait; warp 1 has exited"]


def registers(tmp_path: Path, given: int, asked: int, giving: int, asking: int) -> Places:
    """Warpgroups that give registers and end, and some that ask for more."""
    operations: tuple[Any, ...] = (("setmaxnreg.dec", 10), ("setmaxnreg.inc", 20), ("exit", 30))
    warps = [warp(n, 2, alive=False) for n in range(giving)]
    warps += [warp(giving + n, 1) for n in range(asking)]
    places = program(tmp_path, *operations, outcome=Outcome("deadlock", cta=0, warps=warps))
    places.program.code[:2, 6] = given, asked
    places.outcome.executions = [giving, asking, giving]
    places.program.registers = 168
    return places


def test_registers_beyond_the_budget_are_told_as_a_sum(tmp_path: Path) -> None:
    made = found(registers(tmp_path, 40, 240, 4, 8))
    budget = "needs 40 + 240*2 registers per thread in its warpgroups, the CTA has 168*3"
    assert made.message == f"warps 4-11 wait for 240 registers per thread, which no warp releases: {budget}"
    assert made.notes == [
        "line 10 keeps 40, line 20 requests 240 registers per thread; each has 168 at launch: 232 there would fit",
        "8 of 8 live warps wait; warps 0-3 have exited",
    ]
    assert [(site.line, site.text, site.primary) for site in made.sites] == [
        (10, "keeps 40 registers per thread", False),
        (20, "warps 4-11 wait for 240 registers per thread", True),
    ]
    assert made.help is not None
    assert made.help.startswith("release registers in other warpgroups first, with `ptx.setmaxnreg_dec(count)`")


def test_registers_that_nobody_gives_are_told_without_a_sum(tmp_path: Path) -> None:
    made = found(registers(tmp_path, 24, 200, 4, 4))
    assert made.message == "warps 4-7 wait for 200 registers per thread, which no warp releases"
    assert made.notes[0] == (
        "its warpgroups request 32 registers per thread more than at launch, and have released 144 so far: a warp that "
        "ends releases none (L2)"
    )


@cuda.jit
def comes_too_late():
    bar = cuda.shared.array(1, np.uint64)
    t = cuda.threadIdx.x
    if t == 0:
        ptx.mbarrier_init(bar, 0, 1)
    cuda.syncthreads()
    if t == 32:
        for k in range(2):
            ptx.mbarrier_arrive(bar, 0)
            ptx.mbarrier_wait_parity(bar, 0, k)
    cuda.syncthreads()
    if t == 0:
        ptx.mbarrier_wait_parity(bar, 0, 0)


def test_a_wait_for_a_parity_that_comes_too_late_is_called_that() -> None:
    (found,) = wsemu.check(comes_too_late, 1, 64, ()).findings
    assert found.code == "deadlock"
    assert "warp 0 has not observed phase 0 of `bar[0]`" in (found.help or "")
    assert "comes too late" in (found.help or "")
