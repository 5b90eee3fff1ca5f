"""Time lines of mbarriers and asynchronous copies, of events made by hand."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.async_program import EMPTY, FULL, TILE
from tests.unit.async_program import places as program
from wsemu.launch import tracing
from wsemu.launch.result import Report
from wsemu.model.isa import EXPECT
from wsemu.model.outcome import ALL_LANES, Event, Outcome, PhaseState, PhaseWait, Trace, WarpState
from wsemu.report.perfetto import chrome_trace
from wsemu.report.terminal import plain
from wsemu.report.timeline_svg import timeline_svg, window
from wsemu.report.timeline_terminal import timeline_lines

if TYPE_CHECKING:
    from pathlib import Path

    from wsemu.launch.timeline import Timeline

OPERATIONS: tuple[Any, ...] = (
    ("mbarrier.init", 5), ("bar.sync", 6), ("mbarrier.wait.parity", 8), ("mbarrier.arrive", 10, EXPECT),
    ("bulk.load", 12), ("mbarrier.wait.parity", 20), ("ld.b32", 21), ("mbarrier.arrive", 22), ("exit", 30),
)  # fmt: skip
INIT, BAR, FREE, EXPECTS, LOAD, READY, READ, GIVES, EXIT = range(len(OPERATIONS))


class Run:
    """Events of a pipeline of one stage, each warp in its intervals."""

    def __init__(self, rounds: int) -> None:
        self.events: list[Event] = []
        self.interval = {0: 1, 1: 1}
        for place in (FULL, EMPTY):
            self.add("init", 0, INIT, place, 0, amount=1)
        for warp in (0, 1):
            self.add("sync", warp, BAR, 0, 0, ALL_LANES, ends=True)
        self.events.append(Event("complete", 0, 1, 2, BAR, 0, 0))
        for phase in range(rounds):
            self.round(phase)

    def add(self, kind: Any, warp: int, pc: int, place: int = -1, phase: int = -1, lanes: int = 1, *,
            amount: int = 0, ends: bool = False) -> None:  # fmt: skip
        self.events.append(Event(kind, 0, warp, self.interval[warp], pc, place, phase, lanes, amount=amount))
        self.interval[warp] += ends

    def round(self, phase: int) -> None:
        self.add("await", 0, FREE, EMPTY, phase - 1, ends=True)
        self.add("expect", 0, EXPECTS, FULL, phase, amount=4096)
        self.add("arrive_on", 0, EXPECTS, FULL, phase, amount=1, ends=True)
        self.add("copy", 0, LOAD, TILE, amount=4096)
        self.add("credit", 0, LOAD, FULL, phase, amount=4096)
        self.add("phase", 0, LOAD, FULL, phase)
        self.add("await", 1, READY, FULL, phase, ALL_LANES, ends=True)
        self.add("access", 1, READ, TILE, lanes=ALL_LANES)
        self.add("arrive_on", 1, GIVES, EMPTY, phase, amount=1, ends=True)
        self.add("phase", 1, GIVES, EMPTY, phase)


def timeline(folder: Path, events: list[Event], outcome: Outcome | None = None) -> Timeline:
    places = program(folder, *OPERATIONS, outcome=outcome)
    places.block = (64, 1, 1)
    report = Report(kernel="k", grid=(1, 1, 1), block=(64, 1, 1), verdict="verified", arch="sm_90", seconds=0)
    return tracing.build(report, places, lambda accesses, cta=None: Trace(events))


@pytest.fixture
def line(tmp_path: Path) -> Timeline:
    return timeline(tmp_path, Run(2).events)


def test_a_terminal_has_a_row_for_each_mbarrier_and_one_for_the_copies_of_a_warp(line: Timeline) -> None:
    picture = plain(timeline_lines(line, 80)).split("\n\n")[2].split("\n")
    assert [row.rstrip() for row in picture] == [
        "             0         10",
        "barrier 0    0--",
        "a full[0]        0-  1-",
        "b empty[0]          0   1",
        "warp 0       mmswacw.ac",
        "             ab0ba b a",
        "                  <   <",
        "warp 1       s..w..=aw.=a",
        "             0  a   ba  b",
    ]


def test_phases_have_their_arrivals_and_bytes(line: Timeline) -> None:
    phases = [g for g in line.generations if g.barrier in line.mbarriers]
    assert [(line.name(g.barrier), g.number, g.arrivals, g.bytes) for g in phases] == [
        ("full[0]", 0, 1, 4096), ("full[0]", 1, 1, 4096), ("empty[0]", 0, 1, 0), ("empty[0]", 1, 1, 0),
    ]  # fmt: skip


def test_an_arrive_leads_to_the_waits_for_its_phase(line: Timeline) -> None:
    edges = [(line.where(arrive), line.where(wait)) for arrive, wait in line.edges()]
    assert ("arrive full[0] phase 1", "wait full[0] phase 1") in edges
    assert ("arrive empty[0] phase 0", "wait empty[0] phase 0") in edges
    assert all(wait.until is not None and arrive.at < wait.until for arrive, wait in line.edges())


def test_copies_are_slices_of_a_track_of_their_own(line: Timeline) -> None:
    events = json.loads(chrome_trace(line))["traceEvents"]
    names = {e["args"]["name"]: e["tid"] for e in events if e["name"] == "thread_name"}
    copies = [e for e in events if e["ph"] == "X" and e["tid"] == names["copies of warp 0"]]
    assert [(e["name"], e["args"]) for e in copies] == [("bulk.load tile[0]", {"bytes": 4096})] * 2
    phases = [e["name"] for e in events if e["ph"] == "X" and e["tid"] == names["full[0]"]]
    assert phases == ["phase 0", "phase 1"]


def test_a_page_draws_phases_and_copies(line: Timeline) -> None:
    drawn = str(timeline_svg(line, window(line), linked=False))
    assert "full[0] phase 1: 1 arrivals, 4,096 bytes, complete after step 9" in drawn
    assert "bulk.load tile[0]  line 12: 4,096 bytes from step 5, over after step 5" in drawn


def test_a_wait_that_never_ends_is_seen_to_wait(tmp_path: Path) -> None:
    outcome = Outcome(
        "deadlock", cta=0, warps=[WarpState(0, EXIT, 0), WarpState(1, READY, ALL_LANES)],
        phases=[PhaseState(FULL, 1, 1, 1, 0, INIT)], phase_waits=[PhaseWait(1, ALL_LANES, READY, FULL, 1)],
    )  # fmt: skip
    line = timeline(tmp_path, Run(1).events, outcome)
    (last,) = [step for step in line.steps if step.until is None]
    assert (last.warp, line.where(last)) == (1, "wait full[0] phase 1")
    assert "x" in plain(timeline_lines(line, 80))
