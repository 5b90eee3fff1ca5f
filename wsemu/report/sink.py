"""Destination of the reports on a program's launches: a terminal, or a document in one of the other formats."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from typing import IO, TYPE_CHECKING, Protocol

from wsemu.report.terminal import Printer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wsemu.launch.result import Report
    from wsemu.model.finding import Finding
    from wsemu.report.diagnostic import Style


class Sink(Protocol):
    """Receives the reports and messages of a program, in order."""

    needs_all_launches: bool
    """true if `wsemu run` also reports launches that it does not show: verified ones, and repeated failures"""

    def report(self, report: Report, shown: Sequence[Finding] | None = None) -> None:
        """Report a launch, with all of its findings or only those in `shown`."""

    def not_run(self, report: Report) -> None:
        """Count a launch that did not run because it needs something that is not modeled.  Its error is reported
        separately."""

    def error(self, error: Exception) -> None:
        """Report an error in a launch or in a kernel's source."""

    def text(self, text: str, style: Style = "") -> None:
        """Print lines of text."""

    def notice(self, text: str, file: str, line: int) -> None:
        """Warn about a line of a file."""

    def finish(self, exit_code: int) -> None:
        """Complete the output after the program has ended."""


@contextlib.contextmanager
def sink(format_: str, *, all_: bool = False, program: str = "") -> Iterator[Sink]:
    """Return the sink of a format, which writes to standard output.  A machine-readable format has standard output for
    itself, and the program's own output goes to standard error.  With `all_`, text shows every finding in full instead
    of one for each cause.  `program` is the file that is run."""
    if format_ == "text":
        yield Printer(all_=all_)
        return
    with _owning_standard_output() as stream:
        yield _machine(format_, stream, program)


def _machine(format_: str, stream: IO[str], program: str) -> Sink:
    from wsemu.report import collected, github, gitlab, json, junit, sarif, short

    if format_ == "github":
        return github.Commands(stream)
    if format_ == "short":
        return short.Short(stream)
    documents = {"json": json.document, "sarif": sarif.document, "junit": junit.document, "gitlab": gitlab.document}
    return collected.Collector(stream, documents[format_], format_ == "junit", program=program)


@contextlib.contextmanager
def _owning_standard_output() -> Iterator[IO[str]]:
    """Yield a stream to standard output, while all other output, including that of child processes, goes to standard
    error."""
    sys.stdout.flush()
    try:
        number, other = sys.stdout.fileno(), sys.stderr.fileno()
    except (OSError, ValueError, io.UnsupportedOperation):  # standard output is not a file, as in a notebook
        stream = sys.stdout
        with contextlib.redirect_stdout(sys.stderr):
            yield stream
        return
    with os.fdopen(os.dup(number), "w", encoding="utf-8") as stream:
        os.dup2(other, number)
        try:
            yield stream
        finally:
            with contextlib.suppress(AttributeError, ValueError):  # the program may have closed it
                sys.stdout.flush()
            os.dup2(stream.fileno(), number)
