"""Compare wsemu's report on a program with what its interleavings show."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

import wsemu
from tests.properties.algorithm import RECYCLING, Algorithm
from tests.properties.explorer import (
    ALL_ARRIVE,
    DEADLOCK,
    MISMATCH,
    RACE,
    Outlook,
    Program,
    notation,
    outlook,
)
from tests.properties.lane_control import DIVERGENCE
from tests.properties.lane_explorer import INTRA, LaneOutlook, lane_outlook
from tests.properties.lane_programs import check_lanes
from tests.properties.lanes import Lanes, lanes_notation
from tests.properties.programs import check_compiled, check_interpreted

WAYS: Final[dict[str, Callable[[Program], wsemu.Report]]] = {
    "vm": lambda program: check_interpreted(program, engine="vm"),
    "vm, own kernel": lambda program: check_compiled(program, engine="vm"),
    "reference": lambda program: check_interpreted(program, engine="reference"),
    "reference, own kernel": lambda program: check_compiled(program, engine="reference"),
}
"""the ways of passing a program to wsemu"""
STOPS: Final = {MISMATCH, DIVERGENCE}
"""faults that end a run early, so that it need not show the others"""
SAME: Final = "same-value-store"
LANE_WAYS: Final[dict[str, Callable[[Lanes], wsemu.Report]]] = {
    "vm, lanes": lambda program: check_lanes(program, engine="vm"),
    "vm, mirrored": lambda program: check_lanes(program, mirrored=True, engine="vm"),
    "reference, lanes": lambda program: check_lanes(program, engine="reference"),
    "reference, mirrored": lambda program: check_lanes(program, mirrored=True, engine="reference"),
}
"""the ways of passing a program of lanes to wsemu"""


class Judged(NamedTuple):
    """A program, its possible behavior, and every disagreement, one line each."""

    text: str
    outlook: Outlook | LaneOutlook
    complaints: list[str]

    def __str__(self) -> str:
        return "\n".join([self.text, *(f"    {line}" for line in self.complaints)])


def judged(program: Program, ways: Iterable[str], of: Mapping[str, Callable[[Program], wsemu.Report]] = WAYS) -> Judged:
    """Compare the algorithm and wsemu with enumeration; the program is passed in some of the ways."""
    can = outlook(program)
    named = [("algorithm", complaint) for complaint in impossible(Algorithm(program).errors, can)]
    for way in ways:
        named += [(way, complaint) for complaint in _complaints(of[way](program), can)]
    return Judged(notation(program), can, [f"{way}: {complaint}" for way, complaint in named])


def judged_lanes(
    program: Lanes, ways: Iterable[str], of: Mapping[str, Callable[[Lanes], wsemu.Report]] = LANE_WAYS
) -> Judged:
    """Compare wsemu with enumeration; the program is passed in some of the ways."""
    can = lane_outlook(program)
    named = [(way, complaint) for way in ways for complaint in _complaints(of[way](program), can)]
    return Judged(lanes_notation(program), can, [f"{way}: {complaint}" for way, complaint in named])


def _complaints(report: wsemu.Report, can: Outlook | LaneOutlook) -> list[str]:
    """Return what is wrong with a report."""
    complaints = []
    if report.verdict not in can.verdicts:
        found = ", ".join(sorted(can.faults)) or "no fault"
        complaints.append(f"the verdict is {report.verdict}, and the interleavings show {found}")
    errors = {finding.code for finding in report.findings if finding.severity == "error"}
    if "oversubscribed" in errors:  # a deadlock that surplus arrivals led to has both codes
        errors.remove("oversubscribed")
        if DEADLOCK not in errors:
            complaints.append("oversubscribed without a deadlock")
    complaints += impossible(errors, can)
    if report.verdict == "verified" and can.same != any(finding.code == SAME for finding in report.findings):
        complaints.append(f"{SAME} is {'not ' * can.same}found")
    for finding in report.findings:
        ends = finding.code in (DEADLOCK, MISMATCH) and finding.holds_in == "every schedule"
        if ends and not can.always_ends_in(finding.code):
            complaints.append(f"{finding.code} is said to hold in every schedule")
    return complaints


def impossible(errors: set[str], can: Outlook | LaneOutlook) -> list[str]:
    """What is wrong with the codes that one run found.

    The run is an interleaving, so what ends it or completes by arrivals alone can happen.  A recycling hazard shows in
    some interleaving, though not always as another generation: the operation may meet another count, or the wrong
    generation may complete early.  Without a hazard all interleavings have the generations of this one, so that they
    show just the same faults, unless an illegal instruction or lanes that diverge ended the run early.  Races are told
    of accesses that no store has replaced.
    """
    complaints = [f"{code} cannot happen" for code in sorted(errors & {DEADLOCK, *STOPS, ALL_ARRIVE} - can.faults)]
    if RECYCLING in errors:
        if not can.faults - {RACE, INTRA}:
            complaints.append(f"{RECYCLING}, and no interleaving shows one")
    elif not errors & STOPS and not can.open and (errors - can.faults or can.faults - errors - can.hidden):
        complaints.append(f"found {_listed(errors)}, and the interleavings show {_listed(can.faults)}")
    return complaints


def _listed(codes: Iterable[str]) -> str:
    return ", ".join(sorted(codes)) or "nothing"
