"""Output of `wsemu sweep`: the sizes that hold, the smallest that fails with its diagnostics, and why larger ones were
not tried."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from wsemu.launch.result import Report
from wsemu.report.diagnostic import plural
from wsemu.report.terminal import Printer
from wsemu.timing.resolution import BEST, EQUAL, mark_versions

if TYPE_CHECKING:
    from wsemu.campaign.sweep import Came, Swept, Tried

_WORDS: dict[Came, str] = {"holds": "hold", "fails": "fail", "incomplete": "incomplete", "refused": "refused"}
"""words for several sizes; for a single size, the keys are used"""
_MOST = 6
"""maximum number of sizes that are listed of each kind, except sizes that hold"""
_TIMES = 24
"""maximum number of predicted times that are listed"""


def tell(printer: Printer, swept: Swept) -> None:
    """Print the smallest failure with its diagnostics, the sizes by outcome, and the totals."""
    smallest = swept.smallest
    if smallest is not None:
        if smallest.report:
            printer.report(Report.model_validate_json(smallest.report))
        printer.text(f"smallest that fails: {swept.text(smallest.sizes)}: {smallest.why}", "error")
        printer.text("")
    _print_passing_values(printer, swept)
    for came in ("fails", "incomplete", "refused"):
        _print_other_failures(printer, swept, came)
    _print_times(printer, swept)
    for limit in swept.limits:
        printer.text(f"  largest: {limit}")
    if swept.stopped:
        printer.text(f"stopped: {swept.stopped}; this says nothing of sizes that were not tried", "warning")
    counts = ((len(swept.of(came)), came) for came in _WORDS)
    parts = ", ".join(_outcome_count(count, came) for count, came in counts if count)
    style: Any = {0: "good", 1: "error"}.get(swept.exit_code, "warning")
    printer.text(
        f"{swept.name}  {plural(len(swept.tried), 'size')}{_further_sizes_text(swept)}: {parts or 'none was tried'}",
        style,
    )


def _outcome_count(count: int, came: Came) -> str:
    """Return `1 holds`, `2 hold`."""
    return f"{count:,} {came if count == 1 else _WORDS[came]}"


def _further_sizes_text(swept: Swept) -> str:
    """Return the number of sizes that were tried beyond the selected ones, and the purpose."""
    more = len(swept.tried) - swept.chosen if swept.chosen else 0
    what = "smallest that fails" if swept.smallest else "largest"
    return f", {more:,} of them to find the {what}" if more else ""


def plain(swept: Swept) -> str:
    """Render the report as plain text."""
    stream = io.StringIO()
    tell(Printer(stream), swept)
    return stream.getvalue().rstrip("\n")


def document(swept: Swept) -> dict[str, Any]:
    """Return the report as JSON-compatible data, without the times that the sweep took."""
    marks = _mark_times(swept)
    return {
        "function": swept.name,
        "exit_code": swept.exit_code,
        "smallest": None if swept.smallest is None else _sizes(swept, swept.smallest),
        "limits": swept.limits,
        "stopped": swept.stopped,
        "sizes": [
            {"sizes": _sizes(swept, tried), "came": tried.came, "why": tried.why, "launches": tried.launches}
            | ({"microseconds": tried.microseconds, "mark": marks.get(tried.sizes, "")} if tried.microseconds else {})
            for tried in sorted(swept.tried.values(), key=lambda tried: tried.sizes)
        ],
    }


def _sizes(swept: Swept, tried: Tried) -> dict[str, int]:
    return dict(zip(swept.parameters, tried.sizes, strict=True))


def _print_passing_values(printer: Printer, swept: Swept) -> None:
    """Print the values of each parameter that pass with all tried sizes of the others, and those that pass with
    some."""
    others = [*swept.of("fails"), *swept.of("incomplete")]
    for n, name in enumerate(swept.parameters):
        some = {tried.sizes[n] for tried in swept.of("holds")}
        always = some - {tried.sizes[n] for tried in others}
        beside = " and ".join(parameter for parameter in swept.parameters if parameter != name)
        if always:
            printer.text(f"  {name} holds at {ranges(sorted(always))}")
        if some - always:
            printer.text(f"  {name} holds at {ranges(sorted(some - always))} with some {beside} only")


def _print_other_failures(printer: Printer, swept: Swept, came: Came) -> None:
    found = sorted(swept.of(came), key=lambda tried: (sum(tried.sizes), tried.sizes))
    for tried in found[:_MOST]:
        printer.text(f"  {came if came != 'incomplete' else 'is incomplete'}: {swept.text(tried.sizes)}: {tried.why}")
    if len(found) > _MOST:
        printer.text(f"  ... {len(found) - _MOST:,} more {came if len(found) == _MOST + 1 else _WORDS[came]}")


def _sizes_with_times(swept: Swept) -> list[Tried]:
    """Return the sizes that hold and have a predicted time."""
    return sorted((tried for tried in swept.of("holds") if tried.microseconds), key=lambda tried: tried.sizes)


def _mark_times(swept: Swept) -> dict[tuple[int, ...], str]:
    """Return sizes -> the mark of their predicted time (`timing.resolution`); a single size has none."""
    timed = _sizes_with_times(swept)
    times = [tried.microseconds for tried in timed]
    if len(times) < 2:
        return {}
    marks = mark_versions(times, [tried.resolution for tried in timed], times.index(min(times)))
    return {tried.sizes: mark for tried, mark in zip(timed, marks, strict=True)}


def _print_times(printer: Printer, swept: Swept) -> None:
    """Print the predicted time of each size that holds, if times were predicted."""
    timed, marks = _sizes_with_times(swept), _mark_times(swept)
    if timed:
        printer.text("  predicted for an H200 by a model, to compare sizes; not measured:")
    for tried in timed[:_TIMES]:
        share = max(tried.resolution for tried in timed)
        mark = {BEST: "  <- shortest", EQUAL: f"  within {share:.0%}: {EQUAL}"}.get(marks.get(tried.sizes, ""), "")
        printer.text(f"    {swept.text(tried.sizes)}: {tried.microseconds:,.1f} us{mark}")
    if len(timed) > _TIMES:
        printer.text(f"    ... {len(timed) - _TIMES:,} more: `--format json` prints all of them")


def ranges(numbers: list[int]) -> str:
    """Return numbers as a text such as `0-3, 7, 31-33`."""
    parts: list[list[int]] = []
    for n in numbers:
        if parts and n == parts[-1][-1] + 1:
            parts[-1][1:] = [n]
        else:
            parts.append([n])
    return ", ".join("-".join(f"{n:,}" for n in part) for part in parts)
