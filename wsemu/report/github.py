"""`--format github`: findings as workflow commands, which GitHub shows next to the lines of a pull request.

    ::error file=kernels/copy.py,line=16,endLine=16,col=24,endColumn=34,title=race%3A write-after-read hazard ...::...

Reference: "Workflow commands for GitHub Actions", GitHub's documentation; the escapes are those of its toolkit.
"""

from __future__ import annotations

import os
from typing import IO, TYPE_CHECKING

from wsemu.model.errors import inert
from wsemu.report import diagnostic
from wsemu.report.collected import LEVELS, error_message, strip_controls
from wsemu.report.terminal import WIDTH, plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wsemu.launch.result import Report
    from wsemu.model.cure import Cure
    from wsemu.model.finding import Finding, Site

_DATA = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_PROPERTY = _DATA | str.maketrans({":": "%3A", ",": "%2C"})


class Commands:
    """Writes a command for each finding, error and warning, and a plain line for the rest."""

    needs_all_launches = False

    def __init__(self, stream: IO[str]) -> None:
        self.stream = stream

    def report(self, report: Report, shown: Sequence[Finding] | None = None) -> None:
        for finding in report.findings if shown is None else shown:
            text = _diagnostic(finding, _cure(report, finding))
            self._command(finding.severity, text, _place(finding), f"{finding.code}: {finding.message}")
        lines = diagnostic.summary_lines(report, WIDTH)
        if report.verdict == "incomplete":
            self._command("warning", plain(lines))
        else:
            self.text(plain(lines))

    def not_run(self, report: Report) -> None:
        """Print nothing: the error is reported separately."""

    def error(self, error: Exception) -> None:
        level, text, file, line = error_message(error)
        self._command(level, text, _line(file, line) if file else {})

    def text(self, text: str, style: diagnostic.Style = "") -> None:
        if style in LEVELS:
            self._command(LEVELS[style], text)
            return
        for line in inert(strip_controls(text)).split("\n"):
            self._write(line)

    def notice(self, text: str, file: str, line: int) -> None:
        self._command("warning", text, _line(file, line))

    def finish(self, exit_code: int) -> None:
        """Print nothing: everything is reported."""

    def _command(self, level: str, text: str, place: dict[str, str] | None = None, title: str = "wsemu") -> None:
        properties = {**(place or {}), "title": strip_controls(title)}
        fields = ",".join(f"{name}={value.translate(_PROPERTY)}" for name, value in properties.items())
        self._write(f"::{level} {fields}::{strip_controls(text).translate(_DATA)}")

    def _write(self, line: str) -> None:
        encoding = getattr(self.stream, "encoding", None) or "utf-8"
        self.stream.write(line.encode(encoding, "replace").decode(encoding) + "\n")
        self.stream.flush()


def _cure(report: Report, finding: Finding) -> Cure | None:
    """Return the best verified fix of a finding."""
    cure = report.trials.cure if report.trials else None
    return cure if cure and any(report.findings[n] is finding for n in cure.findings) else None


def _diagnostic(finding: Finding, cure: Cure | None) -> str:
    """Return the diagnostic below its title, and its verified fix as a block that a reviewer can apply."""
    text = plain(diagnostic.finding_lines(finding, WIDTH, [cure] if cure else []))
    return f"{text}\n{_suggestion(cure)}" if cure and cure.is_proven else text


def _suggestion(cure: Cure) -> str:
    """Return GitHub's `suggestion` blocks, each with the lines that it replaces."""
    blocks = []
    for first, last, new in cure.blocks():
        lines = f"line {first}" if first == last else f"lines {first}-{last}"
        name = diagnostic.clean(diagnostic.display_path(cure.file))
        blocks.append("\n".join([f"{lines} of {name}:", "```suggestion", *new, "```"]))
    return "\n".join(blocks)


def _place(finding: Finding) -> dict[str, str]:
    """Return the location of a GitHub annotation.  It has columns only if they are on one line."""
    site = next((site for site in finding.sites if site.primary), None)
    if site is None:
        return {}
    place = _line(site.file, site.line) | {"endLine": str(site.end_line)}
    return place | _columns(site) if site.end_line == site.line else place


def _columns(site: Site) -> dict[str, str]:
    first, last = diagnostic.columns(site)
    return {"col": str(first), "endColumn": str(last)}


def _line(file: str, line: int) -> dict[str, str]:
    return {"file": strip_controls(diagnostic.display_path(file)).replace(os.sep, "/"), "line": str(line)}
