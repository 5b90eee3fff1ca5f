"""`wsemu check FILE`: run a Python program, check every launch in it, say what was found."""

from __future__ import annotations

import contextlib
import os
import runpy
import sys
import traceback
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from wsemu import settings as _settings
from wsemu.check import around, observers
from wsemu.errors import CheckFailed, UnsupportedError, WsemuError
from wsemu.limits import limits
from wsemu.report.terminal import Printer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from wsemu.finding import Report, Verdict

FAILED, USAGE, INCOMPLETE, INTERNAL, INTERRUPTED = 1, 2, 3, 4, 130
_HERE = os.path.dirname(os.path.realpath(__file__))


@dataclass(slots=True)
class _Run:
    """The launches of a program so far."""

    printer: Printer
    verdicts: list[Verdict] = field(default_factory=list)

    def observe(self, report: Report) -> None:
        sys.stdout.flush()
        self.printer.report(report)
        self.verdicts.append(report.verdict)

    def count(self, verdict: Verdict) -> int:
        return self.verdicts.count(verdict)

    @property
    def exit_code(self) -> int:
        if self.count("failed"):
            return FAILED
        return INCOMPLETE if self.count("incomplete") else 0

    def total(self) -> None:
        """The sum over all launches, where there is more than one."""
        if len(self.verdicts) > 1:
            parts = [f"{self.count(v)} {v}" for v in ("verified", "failed", "incomplete") if self.count(v)]
            self.printer.text(f"{len(self.verdicts)} launches: {', '.join(parts)}", "strong")


def run(file: Path, arguments: Sequence[str], settings: _settings.Settings) -> int:
    """Run `file` as `__main__` with `arguments`; returns the exit code of `wsemu check`."""
    printer = Printer()
    if not file.is_file():
        kind = "is a folder, not a program" if file.is_dir() else "does not exist"
        printer.text(f"error: `{file}` {kind}: give a Python file that launches kernels", "error")
        return USAGE
    launches = _Run(printer)
    observers.append(launches.observe)
    try:
        limits(settings.arch)
        with _settings.using(settings), _as_main(file, arguments):
            runpy.run_path(str(file), run_name="__main__")
        code = 0
    except KeyboardInterrupt:
        printer.text(f"interrupted after {len(launches.verdicts)} launches", "warning")
        code = INTERRUPTED
    except SystemExit as exit_:
        code = _stopped(exit_, launches)
    except BrokenPipeError:
        raise
    except WsemuError as error:
        code = _refused(error, launches)
    except Exception as error:
        code = _raised(error, launches, file)
    finally:
        observers.remove(launches.observe)
    launches.total()
    if not code and not launches.verdicts:
        printer.text(f"error: `{file}` launched no kernel: call one as `kernel[grid, block](...)`", "error")
        return USAGE
    return code or launches.exit_code


def crosscheck(file: Path, arguments: Sequence[str], options: dict[str, Any]) -> int:
    """Run `file` on the emulator, then its launches on a GPU with the `options` of `crosscheck.compare`; returns the
    exit code of `wsemu crosscheck`."""
    from wsemu.crosscheck import Recorder, compare

    recorder = Recorder()
    around.append(recorder)
    try:
        code = run(file, arguments, _settings.Settings())
    finally:
        around.remove(recorder)
    printer = Printer()
    if code == USAGE or not recorder.emulated:
        return code
    try:
        reports = compare(recorder.emulated, **options)
    except WsemuError as error:
        printer.error(error)
        return USAGE
    for report in reports:
        printer.text(str(report), "" if report.status == "same" else "error")
    return code or (0 if all(report.status == "same" for report in reports) else FAILED)


@contextlib.contextmanager
def _as_main(file: Path, arguments: Sequence[str]) -> Iterator[None]:
    """`sys.argv` and `sys.path` as `python file arguments...` sets them."""
    argv, path = sys.argv, list(sys.path)
    sys.argv = [str(file), *arguments]
    sys.path[0] = str(file.resolve().parent)
    try:
        yield
    finally:
        sys.argv = argv
        sys.path[:] = path


def _stopped(exit_: SystemExit, launches: _Run) -> int:
    """The program called `sys.exit`."""
    if exit_.code is None or exit_.code == 0:
        return 0
    if isinstance(exit_.code, int):
        launches.printer.text(f"the program ended with exit code {exit_.code}{_after(launches)}", "error")
    else:
        launches.printer.text(f"the program stopped{_after(launches)}: {exit_.code}", "error")
    return FAILED if launches.verdicts else USAGE


def _refused(error: WsemuError, launches: _Run) -> int:
    """A launch that could not be checked, or a check in the program that failed."""
    if isinstance(error, CheckFailed):
        launches.printer.text(f"the program stopped at a failed check of `{error.report.kernel}`", "error")
        return FAILED
    launches.printer.error(error)
    if launches.count("failed"):
        return FAILED
    return INCOMPLETE if isinstance(error, UnsupportedError) else USAGE


def _raised(error: Exception, launches: _Run, file: Path) -> int:
    """The program raised, or wsemu did: the innermost frame of either says which."""
    printer = launches.printer
    frames = _frames(error, os.path.realpath(file))
    message = "".join(traceback.format_exception_only(error)).strip()
    ours = [_is_ours(frame) for frame in frames]
    if any(ours) and not _is_program(frames[-1 - ours[::-1].index(True) :], file):
        frame = frames[-1 - ours[::-1].index(True)]
        printer.text(f"internal error: {message} ({os.path.basename(frame.filename)}:{frame.lineno})", "error")
        printer.text("this is an error of wsemu, not of your program: please report it with the program")
        return INTERNAL
    printer.text(f"the program raised an exception{_after(launches)}:", "error")
    shown = [frame for frame in frames if not _is_ours(frame)]
    printer.text("".join(traceback.format_list(shown)) + message)
    return FAILED if launches.verdicts else USAGE


def _frames(error: Exception, program: str) -> list[traceback.FrameSummary]:
    """The frames from the program's first on: what ran the program is left out."""
    frames = list(traceback.extract_tb(error.__traceback__))
    files = [os.path.realpath(frame.filename) for frame in frames]
    return frames[files.index(program) :] if program in files else []


def _is_ours(frame: traceback.FrameSummary) -> bool:
    return os.path.realpath(frame.filename).startswith(_HERE + os.sep)


def _is_program(frames: list[traceback.FrameSummary], file: Path) -> bool:
    """Whether the program runs again above wsemu: a device function called on the host."""
    return any(os.path.realpath(frame.filename) == os.path.realpath(file) for frame in frames)


def _after(launches: _Run) -> str:
    failed = launches.count("failed")
    if failed:
        return f" after {failed} failed launch{'es' * (failed > 1)}: its arrays may hold only a part of the results"
    return "" if launches.verdicts else " before it launched a kernel"
