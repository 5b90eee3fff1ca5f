"""Print diagnostics on a terminal, in color if it supports this, otherwise as plain text of 80 columns.  Only this
module uses rich."""

from __future__ import annotations

import os
import sys
from typing import IO, TYPE_CHECKING, Any

from wsemu.model.errors import inert
from wsemu.model.version import DOCS
from wsemu.report import diagnostic

if TYPE_CHECKING:
    import traceback
    from collections.abc import Iterable, Sequence

    from wsemu.launch.result import Report
    from wsemu.model.finding import Finding
    from wsemu.report.sink import Sink

WIDTH = 80
"""columns of the plain text output"""
_COLOURS: dict[diagnostic.Style, str] = {
    "": "",
    "error": "bold red",
    "warning": "bold yellow",
    "good": "bold green",
    "strong": "bold",
    "frame": "blue",
    "primary": "bold red",
    "secondary": "blue",
    "explain": "underline",
}


def _rich_style(text: str, style: diagnostic.Style) -> str:
    """Return the style of a piece as rich names it.  A command that explains a code links to the code's page."""
    link = f" link {DOCS}codes/{text.removeprefix(diagnostic.EXPLAIN)}.html" if style == "explain" else ""
    return f"{_COLOURS[style]}{link}"


def render(report: Report, width: int = WIDTH, *, all_: bool = False) -> str:
    """Return the findings of a report as plain text, grouped by cause, or each in full with `all_`.  A report without
    findings gives its summary."""
    return plain(diagnostic.report_lines(report, width, all_=all_))


def render_finding(finding: Finding, width: int = WIDTH) -> str:
    """Return one finding as plain text."""
    return plain(diagnostic.finding_lines(finding, width))


def render_error(error: Exception, width: int = WIDTH) -> str:
    """Return a UsageError or KernelError as plain text: file, line, mark and help."""
    return plain(diagnostic.error_lines(error, width))


def summary(report: Report, width: int = WIDTH) -> str:
    """Return the verdict on a launch and its numbers."""
    return plain(diagnostic.summary_lines(report, width))


def plain(lines: Iterable[diagnostic.Line]) -> str:
    """Return lines without their styles, without trailing blanks and without an empty last line."""
    return inert("\n".join("".join(text for text, _ in line).rstrip() for line in lines).rstrip("\n"))


class Printer:
    """Prints diagnostics on a stream, in color and at its width if it is a terminal and NO_COLOR is unset."""

    needs_all_launches = False

    def __init__(self, stream: IO[str] | None = None, *, all_: bool = False) -> None:
        """With `all_`, show every finding in full instead of one for each cause."""
        self.stream = sys.stdout if stream is None else stream
        self.all = all_
        terminal = self.stream.isatty()
        self.colour = terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        self.width = max(40, min(_columns(self.stream), 120)) if terminal else WIDTH

    def report(self, report: Report, shown: Sequence[Finding] | None = None) -> None:
        """Print the findings that are to be shown, then the summary."""
        report = report.helped()
        count = len(report.findings if shown is None else shown)
        if count:
            self.lines(diagnostic.cause_lines(report, report.findings[:count], self.width, all_=self.all))
            self.text("")
        self.lines(diagnostic.summary_lines(report, self.width))

    def not_run(self, report: Report) -> None:
        """Print nothing more, because the error describes the problem."""

    def error(self, error: Exception) -> None:
        self.lines(diagnostic.error_lines(error, self.width))

    def text(self, text: str, style: diagnostic.Style = "") -> None:
        """Print lines of wsemu's own text.  Lines with a style are sentences, which are wrapped."""
        lines = [text] if style else text.split("\n")  # a newline in a sentence is in a name
        cleaned = (diagnostic.clean(line.expandtabs(4)) for line in lines)
        self.lines([(part, style)] for line in cleaned for part in (self._wrap_line(line) if style else [line]))

    def _wrap_line(self, line: str) -> list[str]:
        return [line] if len(line) <= self.width else diagnostic.wrap_text(line, self.width, "  ")

    def notice(self, text: str, file: str, line: int) -> None:
        """Print a warning about a line of a file."""
        self.text(f"warning: {diagnostic.display_path(file)}:{line}: {text}", "warning")

    def finish(self, exit_code: int) -> None:
        """Do nothing, because everything is printed already."""

    def markdown(self, text: str) -> None:
        """Print a page, formatted if there are colors, otherwise as plain Markdown."""
        if not self.colour:
            self.text(text)
            return
        from rich.console import Console
        from rich.markdown import Markdown

        Console(file=self.stream, width=self.width).print(Markdown(text))

    def lines(self, lines: Iterable[diagnostic.Line]) -> None:
        if self.stream.closed:  # by the program
            self.stream, self.colour = sys.stderr, False
        if self.colour:
            self._print_coloured(lines)
        else:
            text = plain(lines) + "\n"
            encoding = getattr(self.stream, "encoding", None) or "utf-8"
            self.stream.write(text.encode(encoding, "replace").decode(encoding))
        self.stream.flush()

    def _print_coloured(self, lines: Iterable[diagnostic.Line]) -> None:
        from rich.console import Console
        from rich.text import Text

        console = Console(file=self.stream, width=self.width, highlight=False)
        for line in lines:
            console.print(Text.assemble(*((text, _rich_style(text, style)) for text, style in line)), soft_wrap=True)


class QuietPrinter(Printer):
    """Prints the errors of a program, but no report of a launch."""

    def report(self, report: Report, shown: Sequence[Finding] | None = None) -> None:
        """Print nothing."""


def internal_error(sink: Sink, error: BaseException, frame: traceback.FrameSummary, remedy: str) -> None:
    """Report that an exception raised in this frame is a bug in wsemu."""
    import traceback  # nothing else here needs it

    message = "".join(traceback.format_exception_only(error)).strip()
    sink.text(f"internal error: {message} ({os.path.basename(frame.filename)}:{frame.lineno})", "error")
    sink.text(f"this is an error of wsemu{remedy}")


def progress_bar(printer: Printer) -> Any:
    """Return a progress bar of rich for a task with the field `failures`; it disappears when it is stopped."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    console = Console(file=printer.stream, width=printer.width, no_color=not printer.colour)
    return Progress(*columns, TextColumn("[red]{task.fields[failures]}"), console=console, transient=True)


def _columns(stream: IO[str]) -> int:
    try:
        return os.get_terminal_size(stream.fileno()).columns or WIDTH
    except (OSError, ValueError):
        return WIDTH
