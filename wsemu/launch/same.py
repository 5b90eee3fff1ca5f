"""Reuse of a launch's judgment for a later launch that did the same.

A kernel that is launched a thousand times usually does the same each time, in a few arrays by turns.  The engine then
returns the very outcome of an earlier launch (`machine.run`).  Its judgment holds, except for its duration, if it used
nothing but the outcome: the events of a launch, and the contents of its arrays, may differ although its outcome is
equal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wsemu.launch.binding import address_rows
from wsemu.model.data import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from wsemu.launch.result import Report
    from wsemu.launch.running import Ran
    from wsemu.model.bound import Bound, BoundArray
    from wsemu.model.launch_shape import LaunchConfiguration
    from wsemu.model.outcome import Outcome, Trace
    from wsemu.model.program import Program
    from wsemu.model.settings import Settings

_KEY = "said"
MAX_KEPT = 8
"""maximum number of reports that are kept for a program: for arrays that launches use by turns"""


class _Said(NamedTuple):
    """A report, and all that it depends on."""

    outcome: Outcome
    configuration: LaunchConfiguration
    settings: Settings
    names: tuple[str, ...]
    arrays: list[BoundArray]
    uninitialized: frozenset[int]
    notes: tuple[str, ...]
    rows: dict[int, Any]
    """values of parameters, which findings may name; without findings, the segment of each address among them"""
    report: Report


def watch_uses(run: Ran) -> tuple[Ran, Callable[[], bool]]:
    """Return a run like this one, and a function that returns whether anything but its outcome was used."""
    outcome, trace, initial = run
    uses = list[str]()

    def trace_noted(accesses: frozenset[int], cta: int | None = None) -> Trace:
        uses.append("trace")
        return trace(accesses, cta)

    def initial_noted() -> list[Any]:
        uses.append("initial")
        return initial()

    return (outcome, trace_noted, initial_noted), lambda: bool(uses)


def as_comparable(program: Program, outcome: Outcome) -> Outcome:
    """Return an equal outcome of an earlier launch if one is kept, which `repeated_report` recognizes."""
    said: list[_Said] = program.derived.get(_KEY, [])
    return next((known.outcome for known in said if known.outcome == outcome), outcome)


def repeated_report(bound: Bound, outcome: Outcome, notes: tuple[str, ...], seconds: float) -> Report | None:
    """Return the report of an earlier launch, with the current duration, if this launch ended alike; None if it must
    be judged."""
    said: list[_Said] = bound.program.derived.get(_KEY, [])
    for known in said:
        if known.outcome is outcome and known == _remember(bound, outcome, notes, known.report):
            return known.report.again(seconds=seconds)
    return None


def keep(bound: Bound, outcome: Outcome, notes: tuple[str, ...], report: Report) -> None:
    """Keep a report for later launches if its contents depend only on the launch's outcome and arguments."""
    if report.verdict == "verified" and not bound.settings.every:
        said: list[_Said] = bound.program.derived.setdefault(_KEY, [])
        said.insert(0, _remember(bound, outcome, notes, report.again()))
        del said[MAX_KEPT:]


def _remember(bound: Bound, outcome: Outcome, notes: tuple[str, ...], report: Report) -> _Said:
    rows = bound.rows if outcome.findings else address_rows(bound.program, bound.rows, bound.names, bound.arrays)
    return _Said(
        outcome,
        bound.configuration,
        bound.settings,
        bound.names,
        bound.arrays,
        bound.uninitialized,
        notes,
        rows,
        report,
    )
