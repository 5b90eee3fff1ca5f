"""Destination of reports on a program's launches: a terminal, or a document in one of the other formats."""

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
    """Takes what is to be said, in its order."""

    def report(self, report: Report, shown: Sequence[Finding] | None = None) -> None:
        """A launch, with all of its findings or some."""

    def not_run(self, report: Report) -> None:
        """A launch that needs what is not modelled, to be counted; the error is told besides."""

    def error(self, error: Exception) -> None:
        """An error in a launch or in a kernel's source."""

    def text(self, text: str, style: Style = "") -> None:
        """Lines of text of our own."""

    def notice(self, text: str, file: str, line: int) -> None:
        """A warning about a line of a file."""

    def finish(self, exit_code: int) -> None:
        """The program has ended."""


@contextlib.contextmanager
def sink(format_: str, *, all_: bool = False, program: str = "") -> Iterator[Sink]:
    """The sink of a format, on standard output; a format for machines has it for itself: what the program prints goes
    to standard error meanwhile.  `all_`: text has every finding in full, not one of each cause; `program` is the
    file that is run."""
    if format_ == "text":
        yield Printer(all_=all_)
        return
    with _alone() as stream:
        yield _machine(format_, stream, program)


def _machine(format_: str, stream: IO[str], program: str) -> Sink:
    from wsemu.report import collected, github, gitlab, json, junit, sarif, short

    if format_ == "github":
        return github.Commands(stream)
    if format_ == "short":
        return short.Short(stream)
    documents = {"json": json.document, "sarif": sarif.document, "junit": junit.document, "gitlab": gitlab.document}
    return collected.Collector(stream, documents[format_], program=program)


@contextlib.contextmanager
def _alone() -> Iterator[IO[str]]:
    """Standard output, which everything else leaves, processes that the program starts included."""
    sys.stdout.flush()
    try:
        number, other = sys.stdout.fileno(), sys.stderr.fileno()
    except (OSError, ValueError, io.UnsupportedOperation):  # no file, as in a notebook
        stream = sys.stdout
        with contextlib.redirect_stdout(sys.stderr):
            yield stream
        return
    with os.fdopen(os.dup(number), "w", encoding="utf-8") as stream:
        os.dup2(other, number)
        try:
            yield stream
        finally:
            with contextlib.suppress(AttributeError, ValueError):  # the program may have taken it away
                sys.stdout.flush()
            os.dup2(stream.fileno(), number)
