"""`--format gitlab`: findings as a Code Quality report, which GitLab shows in merge requests.

GitLab compares the fingerprints of two reports: a finding whose lines moved is not new.  An incomplete launch is a
separate issue.  Reference: "Code Quality", GitLab's documentation, the report format.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from typing import TYPE_CHECKING, Any

from wsemu.evidence.identity import finding_fingerprint
from wsemu.report import diagnostic
from wsemu.report.collected import report_cures, strip_controls

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wsemu.model.finding import Finding
    from wsemu.report.collected import Collector, Launch

SEVERITIES = {"error": "critical", "warning": "minor", "note": "info"}
INCOMPLETE = "major"
Json = dict[str, Any]


def document(collected: Collector, exit_code: int) -> list[Json]:
    """Return the issues of all launches.  A finding that occurs in several launches is one issue."""
    del exit_code
    found: dict[tuple[Any, ...], Json] = {}
    for launch in collected.launches:
        for finding in launch.shown:
            found.setdefault(_place_key(launch, finding), _issue(launch, finding))
    issues = [*found.values(), *_other_issues(collected)]
    times: Counter[str] = Counter()
    for issue in issues:
        digest = issue["fingerprint"]
        times[digest] += 1
        issue["fingerprint"] += f"-{times[digest]}" if times[digest] > 1 else ""
    return issues


def _place_key(launch: Launch, finding: Finding) -> tuple[Any, ...]:
    places = tuple((site.file, site.line, site.column) for site in finding.sites)
    return finding.code, finding.severity, launch.report.kernel, places


def _issue(launch: Launch, finding: Finding) -> Json:
    site = next((site for site in finding.sites if site.primary), None)
    kernel = launch.report.kernel
    edits = (": ".join(diagnostic.label_cure(cure)) for cure in report_cures(launch.report, finding))
    message = "; ".join([f"{finding.message} (`{kernel}`)", *edits])
    fingerprint = finding_fingerprint(kernel, finding)
    first, last = (site.line, site.end_line) if site else (1, 1)
    file = site.file if site else ""
    return _entry(message, finding.code, fingerprint, SEVERITIES[finding.severity], file, first, last)


def _other_issues(collected: Collector) -> Iterator[Json]:
    """Yield issues for incomplete launches, and for messages that are errors or have a location."""
    for launch in collected.launches:
        report = launch.report
        if report.verdict == "incomplete" and launch.ran:
            why = "; ".join(report.notes) or ", ".join(report.reasons)
            text = f"`{report.kernel}` is not decided: {why}"
            yield _entry(text, "incomplete", _digest(text), INCOMPLETE, collected.program)
    for message in collected.messages:
        if message.level == "error" or message.file:
            file = message.file or collected.program
            severity = SEVERITIES[message.level]
            line = message.line or 1
            yield _entry(message.text, "wsemu", _digest(message.text), severity, file, line, line)


def _entry(text: str, check: str, fingerprint: str, severity: str, file: str, first: int = 1, last: int = 1) -> Json:
    path = diagnostic.display_path(file).replace(os.sep, "/") if file else "."
    return {
        "description": strip_controls(text),
        "check_name": check,
        "fingerprint": fingerprint,
        "severity": severity,
        "location": {"path": strip_controls(path), "lines": {"begin": first, "end": last}},
    }


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:32]
