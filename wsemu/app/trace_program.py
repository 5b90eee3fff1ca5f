"""`wsemu trace FILE`: run a program, and draw the time line of one CTA of one launch."""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wsemu.app import program
from wsemu.app.chosen import resolve_settings
from wsemu.app.exit_codes import USAGE
from wsemu.app.targets import find_target
from wsemu.between.order import watching_operations
from wsemu.launch.hooks import adding_hook, observers, traceable
from wsemu.launch.stream_timeline import Watcher
from wsemu.launch.tracing import build
from wsemu.model.data import dataclass
from wsemu.model.errors import UsageError
from wsemu.report.diagnostic import display_path
from wsemu.report.terminal import Printer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from wsemu.evidence.places import Places
    from wsemu.launch.result import Report
    from wsemu.launch.stream_timeline import StreamTimeline
    from wsemu.launch.timeline import Timeline
    from wsemu.model.finding import Finding
    from wsemu.model.outcome import Tracer

OUTPUTS = (".html", ".json")


@dataclass(frozen=True, slots=True)
class Wanted:
    """Options of a drawing."""

    launch: int | None = None
    """number of the launch, from 1; None: the first failed launch, or else the first one with a finding, or else the
    first one"""
    cta: int | None = None
    """linear index of the CTA; None: the CTA of the first finding"""
    first: int | None = None
    """first step that is shown"""
    output: Path | None = None
    """file (.html or .json); None: the terminal"""


class _Quiet(Printer):
    """Prints errors of the program, but no reports on its launches."""

    def report(self, report: Report, shown: Sequence[Finding] | None = None) -> None:
        pass


class _Choice:
    """The launch to draw, among those of the program; each candidate is traced immediately, before its arrays
    change."""

    def __init__(self, wanted: Wanted) -> None:
        self.wanted = wanted
        self.timeline: Timeline | None = None
        self.number = self.count = 0
        self.error: UsageError | None = None

    def look(self, report: Report, places: Places, tracer: Tracer) -> None:
        self.count += 1
        if self.wanted.launch not in (None, self.count) or not self._is_better(report):
            return
        try:
            self.timeline, self.error = build(report, places, tracer, self.wanted.cta), None
        except UsageError as error:
            self.timeline, self.error = None, error
        self.number = self.count

    def _is_better(self, report: Report) -> bool:
        return self.timeline is None or _weight(report) > _weight(self.timeline.report)


def _weight(report: Report) -> int:
    return 2 if report.errors else min(len(report.findings), 1)


def run(
    file: Path, arguments: Sequence[str], given: Mapping[str, Any], wanted: Wanted, launch: Mapping[str, Any]
) -> int:
    """Run `file` with the options `given`, or run the `launch` of a PTX file, draw the requested output, and return the
    exit code of `wsemu check`."""
    printer = _Quiet()
    try:
        if wanted.output is not None and wanted.output.suffix not in OUTPUTS:
            raise UsageError(f"`{wanted.output}` is neither {' nor '.join(OUTPUTS)}: its name says what to write")
        target = find_target(file, arguments, launch)
        _, settings = resolve_settings(file, given)
    except UsageError as error:
        printer.error(error)
        return USAGE
    choice = _Choice(wanted)
    watcher = Watcher()
    with adding_hook(traceable, choice.look), adding_hook(observers, watcher.note), watching_operations(watcher.look):
        code = program.run(target.file, target.arguments, settings, printer=printer, as_ptx=target.is_ptx)
    if choice.timeline is None:
        if wanted.launch is not None and wanted.launch > choice.count > 0:
            choice.error = UsageError(f"no launch {wanted.launch}: the program made {choice.count}")
        if choice.error is None:
            return code or USAGE
        printer.error(choice.error)
        return USAGE
    try:
        _draw(choice, choice.timeline, watcher.build(), printer)
    except OSError as error:
        printer.text(f"error: cannot write `{wanted.output}`: {error.strerror or error}", "error")
        return USAGE
    return code


def _draw(choice: _Choice, timeline: Timeline, streams: StreamTimeline | None, printer: Printer) -> None:
    wanted = choice.wanted
    if choice.count > 1:
        printer.text(f"launch {choice.number} of {choice.count}; `--launch N` draws another one")
    if wanted.output is None:
        from wsemu.report.streams import stream_lines
        from wsemu.report.timeline_terminal import timeline_lines

        printer.lines(timeline_lines(timeline, printer.width, wanted.first))
        if streams is not None:
            printer.lines(stream_lines(streams, printer.width))
        return
    _save(wanted.output, _writer(wanted)(timeline, streams))
    findings = len(timeline.report.findings)
    what = f"CTA {timeline.cta} of `{timeline.report.kernel}`, {timeline.length:,} steps"
    text = f"{what}, {findings} finding{'s' * (findings != 1)}"
    printer.text(f"{display_path(str(wanted.output))}: {text}")


def _writer(wanted: Wanted) -> Callable[[Timeline, StreamTimeline | None], str]:
    if wanted.output is not None and wanted.output.suffix == ".json":
        from wsemu.report.perfetto import chrome_trace

        return chrome_trace
    from wsemu.report.html import Origin, page

    date = time.strftime("%Y-%m-%d %H:%M:%S %z", time.localtime())
    origin = Origin(shlex.join(["wsemu", *sys.argv[1:]]), date)
    return lambda timeline, streams: page(timeline, wanted.first, origin, streams)


def _save(path: Path, text: str) -> None:
    """Write a file as a whole or not at all."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".wsemu-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _umask() -> int:
    """Return the file mode mask of the process, which can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
