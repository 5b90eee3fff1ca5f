"""Reuse of a launch's judgment for the next launch that did the same.

A kernel that is launched a thousand times usually does the same each time: the engine then returns the very outcome of
the previous launch (`machine.run`), and its judgment holds, except for its duration.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.model.data import NamedTuple

if TYPE_CHECKING:
    from wsemu.launch.result import Report
    from wsemu.model.bound import Bound, BoundArray
    from wsemu.model.launch_shape import LaunchConfiguration
    from wsemu.model.outcome import Outcome
    from wsemu.model.program import Program
    from wsemu.model.settings import Settings

_KEY = "said"


class _Said(NamedTuple):
    """A report, and all that it depends on."""

    outcome: Outcome
    configuration: LaunchConfiguration
    settings: Settings
    names: tuple[str, ...]
    arrays: list[BoundArray]
    uninitialized: frozenset[int]
    notes: tuple[str, ...]
    report: Report


def as_comparable(program: Program, outcome: Outcome) -> Outcome:
    """Return the outcome in a form that `repeated_report` can compare, such as that of CTAs spread over cores."""
    known: _Said | None = program.derived.get(_KEY)
    return known.outcome if known is not None and known.outcome == outcome else outcome


def repeated_report(bound: Bound, outcome: Outcome, notes: tuple[str, ...], seconds: float) -> Report | None:
    """Return the report of the previous launch, with the current duration, if this launch ended alike; None if it must
    be judged."""
    known: _Said | None = bound.program.derived.get(_KEY)
    if known is None or known.outcome is not outcome or known != _remember(bound, outcome, notes, known.report):
        return None
    return known.report.again(seconds=seconds)


def keep(bound: Bound, outcome: Outcome, notes: tuple[str, ...], report: Report) -> None:
    """Keep a report for the next launch if its contents depend only on the launch's outcome."""
    if report.verdict == "verified" and not outcome.findings and not bound.settings.every:
        bound.program.derived[_KEY] = _remember(bound, outcome, notes, report.again())


def _remember(bound: Bound, outcome: Outcome, notes: tuple[str, ...], report: Report) -> _Said:
    return _Said(
        outcome, bound.configuration, bound.settings, bound.names, bound.arrays, bound.uninitialized, notes, report
    )
