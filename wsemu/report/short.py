"""`--format short`: a line for each finding, and one for each launch; no line is wrapped.

A finding is `copy.py:18:9: error[race]: hazard on shared `tile[t]` (`copy`)`.  Editors and scripts can parse this form,
because compilers use it.
"""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

from wsemu.model.errors import inert
from wsemu.report import diagnostic
from wsemu.report.collected import error_message, strip_controls
from wsemu.report.terminal import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wsemu.launch.result import Report
    from wsemu.model.finding import Finding

_WIDE = 1_000_000
"""width, in columns, at which no line is wrapped"""


class Short:
    """Writes each finding, launch and message as one line."""

    needs_all_launches = False

    def __init__(self, stream: IO[str]) -> None:
        self.stream = stream

    def report(self, report: Report, shown: Sequence[Finding] | None = None) -> None:
        for finding in report.findings if shown is None else shown:
            self._write(
                f"{_location(finding)}{finding.severity}[{finding.code}]: {finding.message} (`{report.kernel}`)"
            )
        self._write(plain(diagnostic.summary_lines(report, _WIDE)).partition("\n")[0])
        if report.verdict == "incomplete":
            for note in report.notes:
                self._write(f"warning: `{report.kernel}` is incomplete: {note}")

    def not_run(self, report: Report) -> None:
        """Print nothing: the error is reported separately."""

    def error(self, error: Exception) -> None:
        level, text, file, line = error_message(error)
        self._write(f"{_file_and_line(file, line)}{level}: {text}")

    def text(self, text: str, style: diagnostic.Style = "") -> None:
        for line in [text] if style else text.split("\n"):
            self._write(line)

    def notice(self, text: str, file: str, line: int) -> None:
        self._write(f"{_file_and_line(file, line)}warning: {text}")

    def finish(self, exit_code: int) -> None:
        """Do nothing, because each line is printed immediately."""

    def _write(self, line: str) -> None:
        encoding = getattr(self.stream, "encoding", None) or "utf-8"
        text = inert(strip_controls(line).replace("\n", " "))
        self.stream.write(text.encode(encoding, "replace").decode(encoding) + "\n")
        self.stream.flush()


def _location(finding: Finding) -> str:
    """Return `file:line:column: ` for a finding, or an empty text if it has no site."""
    site = next((site for site in finding.sites if site.primary), None)
    if site is None:
        return ""
    return f"{diagnostic.display_path(site.file)}:{site.line}:{diagnostic.columns(site)[0]}: "


def _file_and_line(file: str, line: int) -> str:
    return f"{diagnostic.display_path(file)}:{line}: " if file else ""
