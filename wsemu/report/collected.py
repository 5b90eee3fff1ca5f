"""Launches of a program, kept until its end: for the formats that are one document (JSON, SARIF, JUnit, GitLab)."""

from __future__ import annotations

import json
from typing import IO, TYPE_CHECKING, Any

from wsemu.model.data import NamedTuple, dataclass, field
from wsemu.model.errors import KernelError, UnsupportedError
from wsemu.report.diagnostic import Style, clean

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wsemu.launch.result import Report
    from wsemu.model.cure import Cure
    from wsemu.model.finding import Finding

LEVELS: dict[Style, str] = {"error": "error", "warning": "warning"}
"""level of a text's style; styles that are missing have the level of a note"""


class Launch(NamedTuple):
    """A checked launch, and those of its findings that are shown."""

    report: Report
    shown: tuple[Finding, ...]
    ran: bool = True
    """false if the launch needs something that is not modeled; then a message names it"""


class Message(NamedTuple):
    """A message that concerns no particular launch."""

    level: str
    """`error`, `warning` or `note`"""
    text: str
    file: str = ""
    line: int = 0


@dataclass(slots=True)
class Collector:
    """Keeps everything, and writes `document(collector, exit code)` on a stream at the end."""

    stream: IO[str]
    document: Callable[[Collector, int], Any]
    """renders data for JSON, or a text"""
    needs_all_launches: bool = False
    launches: list[Launch] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    program: str = ""
    """the file that was run, as the user named it"""

    def report(self, report: Report, shown: Sequence[Finding] | None = None) -> None:
        self.launches.append(Launch(report, tuple(report.findings if shown is None else shown)))

    def not_run(self, report: Report) -> None:
        self.launches.append(Launch(report, (), ran=False))

    def error(self, error: Exception) -> None:
        self.messages.append(error_message(error))

    def text(self, text: str, style: Style = "") -> None:
        self.messages.append(Message(LEVELS.get(style, "note"), strip_controls(text)))

    def notice(self, text: str, file: str, line: int) -> None:
        self.messages.append(Message("warning", strip_controls(text), file, line))

    def finish(self, exit_code: int) -> None:
        document = self.document(self, exit_code)
        self.stream.write(document if isinstance(document, str) else dump_json(document))
        self.stream.flush()


def report_cures(report: Report, finding: Finding) -> list[Cure]:
    """Return the edits that remove a finding: the best one, and the best one with other results."""
    trials = report.trials
    if trials is None or finding not in report.findings:
        return []
    number = report.findings.index(finding)
    return [cure for cure in (trials.cure, trials.other) if cure and number in cure.findings]


def error_message(error: Exception) -> Message:
    """Return the message for an error in a launch or in a kernel's source."""
    level = "warning" if isinstance(error, UnsupportedError) else "error"
    if not isinstance(error, KernelError):
        return Message(level, strip_controls(str(error)))
    text = f"{error.message}; help: {error.remedy}" if error.remedy else error.message
    if error.span is None:
        return Message(level, strip_controls(text))
    return Message(level, strip_controls(text), error.span.file, error.span.line)


def strip_controls(text: str) -> str:
    """Return `text` without control characters.  Line breaks stay."""
    return "\n".join(clean(line.expandtabs(4)) for line in text.split("\n"))


_ESCAPES = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\x7f"}


def dump_json(document: Any) -> str:
    """Return JSON in ASCII, without a character that means something to a terminal or to HTML, and without commands of
    CI services."""
    return json.dumps(document, indent=2).translate(_ESCAPES).replace("##[", "#\\u0023[") + "\n"
