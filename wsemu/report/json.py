"""`--format json`: all reports of a program as one document.

    {"wsemu": "0.1.0", "format": 2, "exit_code": 1, "verdicts": {"failed": 1, ...}, "reports": [...], "messages": [...]}

Each of `reports` is a `Report`, which `Report.model_validate` reads; its `left_out` counts the findings that `--limit`
left out, its `trials` has the edits that fix the launch, and the findings with a common cause.  Times are left out: the
same launches give the same bytes, unless the time for edits ran out.  Paths of files are relative to the working
folder, with `/` on every system.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING, Any

from wsemu.evidence.identity import finding_fingerprint
from wsemu.model.version import __version__
from wsemu.report.diagnostic import display_path

if TYPE_CHECKING:
    from wsemu.report.collected import Collector, Launch

FORMAT = 2
"""version of the JSON document's format"""


def document(collected: Collector, exit_code: int) -> dict[str, Any]:
    """Return all reports and messages as JSON types."""
    verdicts = Counter(launch.report.verdict for launch in collected.launches)
    return {
        "wsemu": __version__,
        "format": FORMAT,
        "exit_code": exit_code,
        "verdicts": {verdict: verdicts[verdict] for verdict in ("verified", "failed", "incomplete")},
        "reports": [_launch(launch) for launch in collected.launches],
        "messages": [_relative(message._asdict()) for message in collected.messages],
    }


def _launch(launch: Launch) -> dict[str, Any]:
    report, shown = launch.report, launch.shown
    findings = [
        finding.model_copy(update={"fingerprint": finding_fingerprint(report.kernel, finding)}) for finding in shown
    ]
    told = {"findings": findings, "left_out": len(report.findings) - len(shown)}
    data: dict[str, Any] = _relative(report.model_copy(update=told).model_dump(mode="json", exclude={"seconds"}))
    return data


def _relative(data: Any) -> Any:
    """Return JSON data in which every `file` has the form in which it is shown."""
    if isinstance(data, dict):
        return {
            key: display_path(value).replace(os.sep, "/") if key == "file" and value else _relative(value)
            for key, value in data.items()
        }
    return [_relative(item) for item in data] if isinstance(data, list) else data
