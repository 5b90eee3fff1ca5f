"""`--format sarif`: findings as a SARIF 2.1.0 log, for code scanning.

A finding with a schedule has a code flow with one thread flow per warp; `executionOrder` numbers the steps across them.
Fingerprints consist of the code, the kernel and the source text of the sites, without line numbers, so they survive
moved lines.

Reference: Static Analysis Results Interchange Format (SARIF) Version 2.1.0, OASIS Standard.
"""

from __future__ import annotations

import linecache
import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from wsemu.checkers.page import page as page_of
from wsemu.evidence.identity import finding_fingerprint
from wsemu.model.codes import CODE_NUMBERS, CODES
from wsemu.model.version import DOCS, __version__
from wsemu.report import diagnostic
from wsemu.report.collected import report_cures, strip_controls
from wsemu.report.diagnostic import label_cure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wsemu.launch.result import Report
    from wsemu.model.cure import Change, Cure
    from wsemu.model.finding import Finding, Index, Site, Step, Suppressed
    from wsemu.report.collected import Collector, Message

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
ROOT = "SRCROOT"
"""base of relative files: the working folder"""
Json = dict[str, Any]


def document(collected: Collector, exit_code: int) -> Json:
    """Return the log: one run, with a rule for each code that was found."""
    results = _Results()
    for launch in collected.launches:
        for finding in launch.shown:
            results.add(launch.report, finding)
        for entry in launch.report.suppressed:
            results.add(launch.report, entry.finding, entry)
    messages = [_notification(message) for message in collected.messages]
    undecided = (x.report for x in collected.launches if x.ran and x.report.verdict == "incomplete")
    messages += [_undecided_notice(report) for report in undecided]
    run = {
        "tool": {"driver": {"name": "wsemu", "version": __version__, "rules": results.rules()}},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {ROOT: {"description": {"text": "the working folder"}}},
        "invocations": [
            {
                "executionSuccessful": exit_code in (0, 1, 3),
                "exitCode": exit_code,
                "toolExecutionNotifications": messages,
            }
        ],
        "results": results.entries(),
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


class _Results:
    """The results of all launches.  Equal locations in several launches are one result."""

    def __init__(self) -> None:
        self._found: dict[tuple[Any, ...], Json] = {}

    def add(self, report: Report, finding: Finding, suppressed: Suppressed | None = None) -> None:
        places = tuple((site.file, site.line, site.column, site.primary) for site in finding.sites)
        key = finding.code, finding.severity, report.kernel, places, suppressed is not None
        known = self._found.get(key)
        if known is not None:
            known["occurrenceCount"] += finding.count
            return
        self._found[key] = _result(report, finding)
        if suppressed is not None:
            kind = "inSource" if suppressed.kind == "source" else "external"
            self._found[key]["suppressions"] = [{"kind": kind, "justification": strip_controls(suppressed.reason)}]

    def rules(self) -> list[Json]:
        return [_rule(code) for code in self._codes()]

    def entries(self) -> list[Json]:
        """Return the results.  If several share a fingerprint, a number in their order distinguishes them."""
        index = {code: number for number, code in enumerate(self._codes())}
        times: Counter[str] = Counter()
        for result in self._found.values():
            result["ruleIndex"] = index[result["ruleId"]]
            prints = result["partialFingerprints"]
            times[prints["wsemu/v1"]] += 1
            prints["wsemu/v1"] += f":{times[prints['wsemu/v1']]}"
        return list(self._found.values())

    def _codes(self) -> list[str]:
        return sorted({key[0] for key in self._found}, key=CODE_NUMBERS.__getitem__)


def _rule(code: str) -> Json:
    severity, meaning, *_ = CODES[code]
    page = page_of(code)
    return {
        "id": code,
        "shortDescription": {"text": meaning},
        "defaultConfiguration": {"level": severity},
        "help": {"text": page.text, "markdown": page.text},
        "helpUri": f"{DOCS}codes/{code}.html",
    }


def _result(report: Report, finding: Finding) -> Json:
    """Return the result for a finding, without the index of its rule."""
    shown = [site for site in finding.sites if site.primary] or finding.sites[:1]
    result: Json = {
        "ruleId": finding.code,
        "level": finding.severity,
        "message": {"text": _message(finding, report_cures(report, finding))},
        "locations": [_location(site, report.kernel) for site in shown[:1]],
        "relatedLocations": [
            {"id": n, **_location(site, report.kernel)}
            for n, site in enumerate((site for site in finding.sites if site not in shown[:1]), 1)
        ],
        "occurrenceCount": finding.count,
        "partialFingerprints": {"wsemu/v1": finding_fingerprint(report.kernel, finding)},
        "properties": {"kernel": strip_controls(report.kernel), "grid": list(report.grid), "block": list(report.block)},
    }
    if finding.holds_in:
        result["properties"]["holdsIn"] = finding.holds_in
    fixes = [_fix(cure) for cure in report_cures(report, finding) if cure.changes and cure.is_proven]
    if fixes:
        result["fixes"] = fixes
    flows = _thread_flows(finding, one_cta=report.grid == (1, 1, 1))
    if flows:
        result["codeFlows"] = [{"message": {"text": "a schedule that shows it"}, "threadFlows": flows}]
    return result


def _fix(cure: Cure) -> Json:
    """Return the edit of one file."""
    replacements = [
        {"deletedRegion": _change_region(change), "insertedContent": {"text": change.text}} for change in cure.changes
    ]
    change = {"artifactLocation": _artifact(cure.file), "replacements": replacements}
    than = f", {cure.differs}" if cure.differs else ""
    says = f"{cure.says}{cure.caution}; then {cure.outcome}{than}"
    return {"description": {"text": _text(says)}, "artifactChanges": [change]}


def _change_region(change: Change) -> Json:
    """Return the region of a change.  Columns count characters, as everywhere in the log."""

    def column(line: int, column: int) -> int:
        before = linecache.getline(change.file, line).encode()[: column - 1]
        return len(before.decode(errors="ignore")) + 1

    return {
        "startLine": change.line,
        "startColumn": column(change.line, change.column),
        "endLine": change.end_line,
        "endColumn": column(change.end_line, change.end_column),
    }


def _text(text: str) -> str:
    """Return text for a message, in which SARIF would take `[name](place)` for a link: a space divides it."""
    return strip_controls(text).replace("](", "] (")


def _message(finding: Finding, cures: Sequence[Cure]) -> str:
    """Return the message, the notes, and the edits that remove the finding; without edits, its hint."""
    lines = [finding.message, *(f"note: {note}" for note in finding.notes)]
    lines += [f"hint: {finding.help}"] if finding.help and not cures else []
    lines += [": ".join(label_cure(cure)) for cure in cures]
    return _text("\n".join(lines))


# -- places ------------------------------------------------------------------------------------------------------------


def _location(site: Site, kernel: str = "") -> Json:
    location: Json = {"physicalLocation": _physical(site.file, _region(site))}
    if kernel:
        location["logicalLocations"] = [{"name": strip_controls(kernel), "kind": "function"}]
    if site.text:
        location["message"] = {"text": _text(site.text)}
    return location


def _physical(file: str, region: Json) -> Json:
    return {"artifactLocation": _artifact(file), "region": region}


def _artifact(file: str) -> Json:
    """Return a file by its relative path if it is below the working folder, otherwise by its URI."""
    shown = diagnostic.display_path(file)
    if file.startswith("<"):  # a cell, a string: no file
        return {"uri": quote(shown)}
    if os.path.isabs(shown):
        return {"uri": Path(shown).as_uri()}
    return {"uri": quote(shown.replace(os.sep, "/")), "uriBaseId": ROOT}


def _region(site: Site) -> Json:
    first, last = diagnostic.columns(site)
    region = {"startLine": site.line, "startColumn": first, "endLine": site.end_line, "endColumn": last}
    return region if (site.end_line, last) > (site.line, first) else {"startLine": site.line}


# -- schedules ---------------------------------------------------------------------------------------------------------


def _thread_flows(finding: Finding, *, one_cta: bool) -> list[Json]:
    """Return one thread flow per warp: the steps of the schedule, or, without a schedule, the warp's actions at the
    finding's sites."""
    flows: dict[str, list[Json]] = {}
    for number, (cta, warp, location) in enumerate(_steps(finding) or _acts(finding), 1):
        who = f"warp {warp}" if one_cta or cta is None else f"warp {warp} of CTA {cta}"
        flows.setdefault(who, []).append({"location": location, "executionOrder": number})
    return [{"id": who, "locations": steps} for who, steps in flows.items()]


def _steps(finding: Finding) -> list[tuple[Index | None, int, Json]]:
    """Return the CTA and warp of each step of the schedule, with its location."""
    return [(step.cta, step.warp, _step(finding, step)) for step in finding.steps if step.shown and finding.sites]


def _step(finding: Finding, step: Step) -> Json:
    """Return the location of a step: its line in the file of a site on that line, else in that of the first site."""
    file = next((site.file for site in finding.sites if site.line == step.line), finding.sites[0].file)
    return {
        "physicalLocation": _physical(file, {"startLine": step.line}),
        "message": {"text": _text(_step_text(step))},
    }


def _step_text(step: Step) -> str:
    """Return the text of a step, such as `sync barrier 1 gen 0 32/64` or `store tile[lane] i=0 (1)`."""
    parts = [step.does]
    if step.barrier is None:
        parts.append(step.what)
    else:
        count = f"{step.arrived}/{step.expected}" if step.expected else ""
        parts += [f"barrier {step.barrier} gen {step.generation}", count]
    return " ".join(part for part in (*parts, step.when, step.mark) if part)


def _acts(finding: Finding) -> list[tuple[Index | None, int, Json]]:
    return [(site.cta, site.warp, _location(site)) for site in finding.sites if site.warp is not None]


# -- messages that belong to no finding --------------------------------------------------------------------------------


def _notification(message: Message) -> Json:
    notification: Json = {"level": message.level, "message": {"text": _text(message.text) or "-"}}
    if message.file:
        notification["locations"] = [{"physicalLocation": _physical(message.file, {"startLine": message.line})}]
    return notification


def _undecided_notice(report: Report) -> Json:
    why = "; ".join(report.notes) or ", ".join(report.reasons)
    return {"level": "warning", "message": {"text": _text(f"`{report.kernel}` is not decided: {why}")}}
