"""`wsemu diff A.json B.json`: compare the findings, verdicts, costs or predicted times of two reports.

A report is the document of `wsemu check --format json` or the list of `wsemu time --json`.  Findings are compared by
fingerprints, which do not depend on line numbers; launches by kernel, grid and block, in order.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from typing import TYPE_CHECKING, Any

from wsemu.app.exit_codes import FAILED, USAGE
from wsemu.model.data import NamedTuple, dataclass, field
from wsemu.model.errors import UsageError
from wsemu.report.diagnostic import clean, extent, plural
from wsemu.report.terminal import Printer
from wsemu.timing.resolution import EQUAL

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

COSTS = (
    "warp_instructions",
    "shared_load_wavefronts",
    "shared_store_wavefronts",
    "shared_atomic_wavefronts",
    "global_load_sectors",
    "global_store_sectors",
    "barrier_operations",
)
"""compared counters of a launch"""
LARGEST = 256 << 20
"""maximum bytes of a report"""
_RANK = ("verified", "incomplete", "failed")
"""verdicts in the order of their severity"""


class Change(NamedTuple):
    """A number or verdict that differs between the reports."""

    launch: str
    name: str
    before: Any
    after: Any


@dataclass(slots=True)
class Contents:
    """The comparable parts of a report."""

    findings: dict[str, str] = field(default_factory=dict)
    """identity -> severity, location and title"""
    counts: Counter[str] = field(default_factory=Counter)
    """identity -> number of findings that have it"""
    verdicts: dict[str, str] = field(default_factory=dict)
    costs: dict[str, dict[str, int]] = field(default_factory=dict)
    times: dict[str, float] = field(default_factory=dict)
    """launch -> its predicted time in microseconds"""
    resolutions: dict[str, float] = field(default_factory=dict)
    """launch -> the share by which predicted times must differ to be distinguished"""


def run(before: Path, after: Path, *, as_json: bool) -> int:
    """Compare two files and print the result; return the exit code."""
    printer = Printer()
    try:
        first, second = _read(before), _read(after)
        if _kind(first) != _kind(second) and _kind(first) and _kind(second):
            raise UsageError(f"`{before}` has {_kind(first)}, `{after}` has {_kind(second)}: give two of one kind")
    except UsageError as error:
        printer.error(error)
        return USAGE
    result = compare(first, second)
    if as_json:
        print(json.dumps(result, indent=2))
    else:
        for line in format_result(result):
            printer.text(line)
    return FAILED if result["new"] or result["worse"] else 0


def _kind(contents: Contents) -> str:
    return "predicted times" if contents.times else "launches" if contents.verdicts else ""


def _read(file: Path) -> Contents:
    """Return the contents of a report; raise UsageError if the file is not one."""
    try:
        with file.open("rb") as stream:  # the file may be a pipe
            text = stream.read(LARGEST + 1)
    except OSError as error:
        raise UsageError(f"`{file}`: {error.strerror or error}: give a report of `wsemu check --format json`") from None
    if len(text) > LARGEST:
        raise UsageError(f"`{file}` has more bytes than wsemu reads: at most {LARGEST:,}")
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"`{file}` does not hold JSON ({error}): give a report of `wsemu check --format json`"
        ) from None
    try:
        return _contents(data)
    except (AttributeError, ArithmeticError, KeyError, TypeError, ValueError):
        remedy = "give one of `wsemu check --format json` or `wsemu time --json`"
        raise UsageError(f"`{file}` does not hold a report of wsemu: {remedy}") from None


def _contents(data: Any) -> Contents:
    contents, times = Contents(), Counter[str]()
    if isinstance(data, list):
        for entry in data:
            name = _launch_name(entry, times)
            contents.times[name] = _to_time(entry["microseconds"])
            contents.resolutions[name] = _to_time(entry.get("resolution", 0.0))
        return contents
    for report in data["reports"]:
        name = _launch_name(report, times)
        contents.verdicts[name] = report["verdict"]
        _RANK.index(report["verdict"])
        contents.costs[name] = {cost: _to_count(report["counters"].get(cost, 0)) for cost in COSTS}
        _add_findings(contents, report)
    return contents


def _to_time(value: Any) -> float:
    """Return a time of a report; raise ValueError for another value."""
    time = float(value)
    if not 0 <= time < math.inf:
        raise ValueError(value)
    return time


def _to_count(value: Any) -> int:
    """Return a counter of a report; raise ValueError for another value."""
    count = int(value)
    if not 0 <= count < 1 << 64:
        raise ValueError(value)
    return count


def _add_findings(contents: Contents, report: dict[str, Any]) -> None:
    """Add the findings of a launch.  A finding that occurs in several launches counts as often as in the launch that
    has most of it."""
    counts: Counter[str] = Counter()
    for finding in report["findings"]:
        site = next((site for site in finding["sites"] if site["primary"]), None)
        where = f" at {site['file']}:{site['line']}" if site else ""
        identity = finding.get("fingerprint") or json.dumps([finding["code"], report["kernel"], finding["message"]])
        counts[identity] += 1
        text = f"{finding['severity']}[{finding['code']}]{where}: {finding['message']} (`{report['kernel']}`)"
        contents.findings.setdefault(identity, clean(text))
    contents.counts |= counts


def _launch_name(entry: dict[str, Any], times: Counter[str]) -> str:
    """Return the name of a launch, `copy[grid 1, block 64]`; equal launches are numbered from the second on."""
    name = clean(f"{entry['kernel']}[grid {extent(tuple(entry['grid']))}, block {extent(tuple(entry['block']))}]")
    times[name] += 1
    return name if times[name] == 1 else f"{name} #{times[name]}"


def compare(before: Contents, after: Contents) -> dict[str, Any]:
    """Return the differences as data for JSON."""
    both = before.counts & after.counts
    verdicts = [*_changes(before.verdicts, after.verdicts, "verdict")]
    costs = [
        change
        for launch in after.costs
        for change in _numbers(launch, before.costs.get(launch, {}), after.costs[launch])
    ]
    return {
        "new": _texts(after, after.counts - before.counts),
        "gone": _texts(before, before.counts - after.counts),
        "same": both.total(),
        "verdicts": [change._asdict() for change in verdicts],
        "worse": [change.launch for change in verdicts if _is_worse(change)],
        "costs": [change._asdict() for change in costs],
        "times": [
            change._asdict() | {"mark": _mark_time(change, before, after)}
            for change in _changes(before.times, after.times, "microseconds")
        ],
        "launches": {"before": len(before.verdicts or before.times), "after": len(after.verdicts or after.times)},
    }


def _mark_time(change: Change, before: Contents, after: Contents) -> str:
    """Return `not distinguished` for a change that is smaller than the model's resolution."""
    if change.before is None or change.after is None:
        return ""
    share = max(contents.resolutions[change.launch] for contents in (before, after))
    return EQUAL if max(change.before, change.after) <= min(change.before, change.after) * (1 + share) else ""


def _texts(contents: Contents, counts: Counter[str]) -> list[str]:
    return [contents.findings[key] + (f" x{count}" if count > 1 else "") for key, count in counts.items()]


def _changes(before: dict[str, Any], after: dict[str, Any], name: str) -> Iterator[Change]:
    """Yield the launches whose values differ; None represents a launch that one report does not have."""
    for launch in dict.fromkeys([*before, *after]):
        if before.get(launch) != after.get(launch):
            yield Change(launch, name, before.get(launch), after.get(launch))


def _numbers(launch: str, before: dict[str, int], after: dict[str, int]) -> Iterator[Change]:
    for name in COSTS if before else ():
        if before[name] != after[name]:
            yield Change(launch, name, before[name], after[name])


def _is_worse(change: Change) -> bool:
    """Return whether a verdict became worse; a launch that only the later report has is compared with `verified`."""
    return change.after is not None and _RANK.index(change.after) > _RANK.index(change.before or "verified")


def format_result(result: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of a comparison."""
    counts = f"{len(result['new'])} new, {len(result['gone'])} gone, {result['same']} in both"
    launches = result["launches"]
    if result["verdicts"] or not result["times"]:
        yield f"findings: {counts}"
    yield from (f"  + {text}" for text in result["new"])
    yield from (f"  - {text}" for text in result["gone"])
    for title, key in (("verdicts", "verdicts"), ("costs", "costs"), ("predicted times", "times")):
        if result[key]:
            yield f"{title}:"
            yield from (f"  {_format_change(change)}" for change in result[key])
    if launches["before"] != launches["after"]:
        yield f"launches: {launches['before']} before, {plural(launches['after'], 'launch', 'es')} after"
    if not any(result[key] for key in ("new", "gone", "verdicts", "costs", "times")):
        yield f"no difference in {plural(launches['after'], 'launch', 'es')}"


def _format_change(change: dict[str, Any]) -> str:
    before, after = change["before"], change["after"]
    name = {"verdict": "", "microseconds": ""}.get(change["name"], f" {change['name'].replace('_', ' ')}")
    unit = " us" if change["name"] == "microseconds" else ""
    texts = [f"{value:,.6g}{unit}" if isinstance(value, float) else _count_text(value) for value in (before, after)]
    share = ""
    if before and after and not isinstance(before, str):
        share = f" ({(after / before - 1) * 100:+.1f} %)"
    mark = f", {change['mark']}" if change.get("mark") else ""
    return f"{change['launch']}{name}: {texts[0]} -> {texts[1]}{share}{mark}"


def _count_text(value: Any) -> str:
    return "not launched" if value is None else f"{value:,}" if isinstance(value, int) else str(value)
