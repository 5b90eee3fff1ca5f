"""`wsemu check FILE` and `wsemu run FILE`: run a Python program, or make a launch of a PTX file, check every launch in
it, say what was found."""

from __future__ import annotations

import contextlib
import os
import runpy
import signal
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wsemu.host import takeover
from wsemu.launch.check import not_run
from wsemu.launch.hooks import around, observers, passed_over, refused, starting
from wsemu.launch.result import CheckFailed
from wsemu.model import settings as _settings
from wsemu.model.data import dataclass, field
from wsemu.model.errors import KernelError, UnsupportedError, UsageError, WsemuError
from wsemu.model.finding import MOST_SHOWN
from wsemu.model.limits import limits
from wsemu.model.own import is_own
from wsemu.model.program import Span
from wsemu.report.terminal import Printer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from wsemu.app.fix import Fixes
    from wsemu.launch.replay.witness_file import Saver
    from wsemu.launch.result import Report
    from wsemu.model.bound import Bound
    from wsemu.model.finding import Verdict
    from wsemu.model.launch_shape import LaunchConfiguration
    from wsemu.report.sink import Sink

FAILED, USAGE, INCOMPLETE, INTERNAL, INTERRUPTED = 1, 2, 3, 4, 130
_THIN = ("device_array.py", "driver.py", "xoroshiro.py", "reduction.py", "takeover.py", "vectorize.py", "errors.py")
"""modules of host functions, which hand on what the program gave them"""
_MOST_FRAMES = 6
"""of the program's own that are shown of an exception"""


COMPILED = (".cu", ".cuh", ".cubin", ".fatbin")
"""suffixes of what is not PTX yet, or no longer"""


def is_ptx(file: Path) -> bool:
    """Whether a file is PTX, by its name: it is launched, not run."""
    return file.suffix.lower() == ".ptx"


class Enough(BaseException):
    """What the program was run for is done, it need not go on.  No Exception, which it might catch."""


@dataclass(slots=True)
class _Run:
    """The launches of a program so far."""

    printer: Sink
    limit: int | None = None
    """findings that are shown of all launches together; None: `MOST_SHOWN` of each"""
    quiet: bool = False
    """tell only of launches that are not verified, each trouble once"""
    saver: Saver | None = None
    running: str = ""
    """the kernel of the launch that is under way"""
    fixes: Fixes | None = None
    verdicts: list[Verdict] = field(default_factory=list)
    kernels: set[str] = field(default_factory=set)
    reasons: dict[str, None] = field(default_factory=dict)
    """why launches are incomplete, in the order in which they came"""
    warnings: int = 0
    refused: list[WsemuError] = field(default_factory=list)
    """what launches raised"""
    missing: int = 0
    """launches that did not run, for what is not modelled"""
    told: set[Any] = field(default_factory=set)
    shown: int = 0
    """findings"""
    left_out: int = 0
    """findings beyond the limit"""
    used: set[tuple[str, int]] = field(default_factory=set)
    """suppressions, by file and line"""
    unused: dict[tuple[str, int], str] = field(default_factory=dict)
    """suppressions that accept nothing in a launch, and what is to be said of them"""

    def start(self, bound: Bound) -> None:
        self.running = bound.program.name

    @property
    def so_far(self) -> str:
        """`in `sgemv`, after 3 launches`"""
        where = f"in `{self.running}`, " if self.running else ""
        return f"{where}after {_plural(len(self.verdicts), 'launch', 'es')}"

    def observe(self, report: Report) -> None:
        _flush()
        self.running = ""
        if self.fixes is not None:
            self.fixes.observe(report)
        self.verdicts.append(report.verdict)
        self.kernels.add(report.kernel)
        self.reasons.update(dict.fromkeys(report.reasons))
        self.warnings += len(report.warnings)
        self.used.update((entry.file, entry.line) for entry in report.suppressed)
        self.unused.update(((entry.file, entry.line), entry.message) for entry in report.unused)
        if not self.quiet:
            self.show(report)
        elif report.verdict != "verified":
            places = (tuple((site.file, site.line) for site in finding.places) for finding in report.errors)
            if self._is_new(report.kernel, *places, *report.notes):
                self.show(report.of_errors())
        for path in self.saver.save(report) if self.saver else ():
            self.printer.text(f"replay: wsemu replay {path}")

    def show(self, report: Report) -> None:
        """A launch, with as many findings as the limit allows."""
        report = report.helped()
        room = MOST_SHOWN if self.limit is None else max(self.limit - self.shown, 0)
        shown = report.findings[:room]
        self.shown += len(shown)
        self.left_out += len(report.findings) - len(shown)
        self.printer.report(report, shown)

    def refuse(self, kernel: Any, configuration: LaunchConfiguration, error: WsemuError) -> bool:
        """Count a launch that could not be made; what is not modelled does not end the program."""
        self.refused.append(error)
        if not isinstance(error, UnsupportedError):
            return False
        _flush()
        self.missing += 1
        self.verdicts.append("incomplete")
        self.kernels.add(kernel.__name__)
        self.reasons[error.subject] = None
        self.printer.not_run(not_run(kernel, configuration, error))
        if self._is_new(kernel.__name__, str(error)):
            self.printer.error(error)
            self.printer.text(f"{kernel.__name__} was not run: its arrays are as they were", "warning")
        return True

    def _is_new(self, *what: Any) -> bool:
        known = what in self.told
        self.told.add(what)
        return not known

    def swallowed(self, ending: BaseException | None) -> WsemuError | None:
        """What a launch raised and the program caught, so that nobody has seen it."""
        hidden = (e for e in self.refused if e is not ending and not isinstance(e, UnsupportedError))
        return next(hidden, None)

    def count(self, verdict: Verdict) -> int:
        return self.verdicts.count(verdict)

    @property
    def exit_code(self) -> int:
        if self.count("failed"):
            return FAILED
        return INCOMPLETE if self.count("incomplete") else 0

    def idle(self) -> None:
        """Suppressions that no launch had a use for."""
        for (file, line), message in self.unused.items():
            if (file, line) not in self.used:
                self.printer.notice(message, file, line)

    def total(self) -> None:
        """The sum over all launches, where there is more than one or nothing else was said."""
        if self.left_out:
            self.printer.text(f"{_plural(self.left_out, 'finding')} not shown: raise `--limit`", "warning")
        if len(self.verdicts) <= (not self.quiet):
            return
        parts = [f"{self.count(v)} {v}" for v in ("verified", "failed", "incomplete") if self.count(v)]
        if self.reasons:
            parts[-1] += f" ({', '.join(self.reasons)})"
        extent = f"{_plural(len(self.kernels), 'kernel')}, {_plural(len(self.verdicts), 'launch', 'es')}"
        more = f"; {_plural(self.warnings, 'warning')}, shown by `wsemu check`" if self.quiet and self.warnings else ""
        self.printer.text(f"{extent}: {', '.join(parts)}{more}", "strong")


def _flush() -> None:
    """Write what the program has printed, unless it took its output away."""
    with contextlib.suppress(AttributeError, ValueError):
        sys.stdout.flush()


def _plural(count: int, noun: str, ending: str = "s") -> str:
    return f"{count:,} {noun}{ending if count != 1 else ''}"


def run(
    file: Path,
    arguments: Sequence[str],
    settings: _settings.Settings,
    *,
    quiet: bool = False,
    printer: Sink | None = None,
    limit: int | None = None,
    time_limit: float | None = None,
    saver: Saver | None = None,
    module: str = "",
    fixes: Fixes | None = None,
) -> int:
    """Run `file` as `__main__` with `arguments`; returns the exit code of `wsemu check`.

    `numba.cuda` is wsemu's meanwhile.  `quiet`, as of `wsemu run`, says nothing of verified launches; `limit` is how
    many findings are shown, `time_limit` the seconds after which the program is stopped, `saver` keeps the witnesses of
    errors, and `fixes` the edits that cure them.  With a name in `module` that module is run, of which `file` is the
    source, as by `python -m`.
    """
    printer = printer or Printer()
    if not file.is_file():
        there = "is no ordinary file" if file.exists() else "does not exist"
        kind = "is a folder, not a program" if file.is_dir() else there
        printer.text(f"error: `{file}` {kind}: give a Python file that launches kernels, or PTX", "error")
        return USAGE
    if file.suffix.lower() in COMPILED:
        how = "PTX of it: `nvcc -ptx -lineinfo` makes a .ptx file"
        printer.text(f"error: `{file}` is nothing that wsemu runs: give a Python file, or {how}", "error")
        return USAGE
    launches = _Run(printer, limit, quiet, saver, fixes=fixes)
    passed_over.clear()
    ending: BaseException | None = None
    stepped = quiet and not around
    if stepped:
        around.append(_at_breakpoints)
    observers.append(launches.observe)
    refused.append(launches.refuse)
    starting.append(launches.start)
    try:
        limits(settings.arch)
        with (
            _settings.using(settings),
            takeover.numba_cuda(),
            takeover.inherited(),
            _as_main(file, arguments, module),
            _within(time_limit),
        ):
            if is_ptx(file):
                from wsemu.app import ptx_launch

                ptx_launch.run(file, arguments)
            elif module:
                runpy.run_module(module, run_name="__main__", alter_sys=True)
            else:
                runpy.run_path(str(file), run_name="__main__")
        code = 0
    except _TimeUp:
        printer.text(f"the time limit of {time_limit:g} s is reached {launches.so_far}", "warning")
        code = launches.exit_code or INCOMPLETE
    except KeyboardInterrupt:
        printer.text(f"interrupted {launches.so_far}", "warning")
        code = INTERRUPTED
    except SystemExit as exit_:
        code = _stopped(exit_, launches)
    except Enough:
        raise
    except BrokenPipeError as error:
        if error.errno is not None:  # of the pipe that all is written to; else raised by the program
            raise
        code = _raised(error, launches, file)
    except WsemuError as error:
        ending = error
        code = _refused(error, launches, file)
    except BaseException as error:  # what a program raises need be no Exception
        code = _raised(error, launches, file)
    finally:
        observers.remove(launches.observe)
        refused.remove(launches.refuse)
        if stepped:
            around.remove(_at_breakpoints)
        starting.remove(launches.start)
    hidden = launches.swallowed(ending)
    if hidden is not None:
        printer.error(hidden)
        printer.text("the program caught this error of a launch and went on", "warning")
        code = code or launches.exit_code or USAGE
    launches.idle()
    launches.total()
    if not code and not launches.verdicts:
        printer.text(f"error: {_nothing(file, settings)}", "error")
        return USAGE
    return code or launches.exit_code


def _at_breakpoints(
    kernel: Any, configuration: LaunchConfiguration, arguments: Sequence[Any], run: Callable[[], Report]
) -> Report:
    """A launch of `wsemu run`: the debugger steps in where the kernel calls `breakpoint()`."""
    code = getattr(getattr(kernel, "py_func", None), "__code__", None)
    if code is not None and "breakpoint" in code.co_names:
        from wsemu.app.debugger import Debugger

        Debugger(lambda _: True, waits="c").step(kernel, configuration, arguments)
    return run()


def _nothing(file: Path, settings: _settings.Settings) -> str:
    """Why no launch was checked."""
    if passed_over:
        wanted = ", ".join(f"`{pattern}`" for pattern in settings.kernels)
        return f"`{file}` launched no kernel named {wanted}, but {', '.join(f'`{name}`' for name in passed_over)}"
    return f"`{file}` launched no kernel: call one as `kernel[grid, block](...)`"


def crosscheck(file: Path, arguments: Sequence[str], options: dict[str, Any]) -> int:
    """Run `file` on the emulator, then its launches on a GPU with the `options` of `crosscheck.compare`; returns the
    exit code of `wsemu crosscheck`."""
    from wsemu.app import config
    from wsemu.launch.crosscheck import Recorder, compare

    if is_ptx(file):
        Printer().text(f"error: `{file}` is PTX, which wsemu does not send to a GPU: `wsemu check` runs it", "error")
        return USAGE
    recorder, printer = Recorder(), Printer()
    try:
        chosen, settings = config.configured(file, {})
    except UsageError as error:
        printer.error(error)
        return USAGE
    around.append(recorder)
    try:
        code = run(file, arguments, settings, printer=printer, limit=chosen.limit)
    finally:
        around.remove(recorder)
    if code == USAGE or not recorder.emulated:
        return code
    try:
        with _settings.using(settings):
            reports = compare(recorder.emulated, **options)
    except WsemuError as error:
        printer.error(error)
        return USAGE
    for report in reports:
        printer.text(str(report), "" if report.status == "same" else "error")
    return code or (0 if all(report.status == "same" for report in reports) else FAILED)


class _TimeUp(KeyboardInterrupt):
    """The time limit is reached: whoever can be interrupted is."""


@contextlib.contextmanager
def _within(seconds: float | None) -> Iterator[None]:
    """Raise _TimeUp after so many seconds, where the system has timers for that."""
    if seconds is None or not hasattr(signal, "setitimer"):
        yield
        return

    def ring(*_: object) -> None:
        raise _TimeUp

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextlib.contextmanager
def _as_main(file: Path, arguments: Sequence[str], module: str = "") -> Iterator[None]:
    """`sys.argv` and `sys.path` as `python file arguments...`, or `python -m module`, sets them."""
    argv, path = sys.argv, list(sys.path)
    sys.argv = [str(file), *arguments]
    sys.path[0] = os.getcwd() if module else str(file.resolve().parent)
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
        launches.printer.text(f"the program stopped{_after(launches)}: {_as_text(exit_.code)}", "error")
    return _code_of_failure(launches)


def _as_text(value: object) -> str:
    """A value of the program as text, which may be no text at all."""
    try:
        return str(value)
    except Exception:
        return f"an object of type {type(value).__name__}, whose text raises an exception"


def _code_of_failure(launches: _Run) -> int:
    """The program failed: that means nothing where launches are missing."""
    if launches.missing:
        return launches.exit_code
    return FAILED if launches.verdicts else USAGE


def _refused(error: WsemuError, launches: _Run, file: Path) -> int:
    """A launch that could not be checked, or a check in the program that failed."""
    if isinstance(error, CheckFailed):
        launches.printer.text(f"the program stopped at a failed check of `{error.report.kernel}`", "error")
        return FAILED
    launches.printer.error(error if isinstance(error, KernelError) and error.span else _placed(error, file))
    if launches.count("failed"):
        return FAILED
    return INCOMPLETE if isinstance(error, UnsupportedError) else USAGE


def _placed(error: WsemuError, file: Path) -> WsemuError:
    """The error with the innermost place of the user's that led to it."""
    frame = next((f for f in reversed(_frames(error, os.path.realpath(file))) if not _is_hidden(f)), None)
    if frame is None or frame.lineno is None:
        return error
    end = (frame.end_lineno or frame.lineno, frame.end_colno or 0)
    span = Span(frame.filename, frame.lineno, frame.colno or 0, *end)
    if isinstance(error, KernelError):
        error.span = span
        return error
    return KernelError(str(error), span)


def _raised(error: BaseException, launches: _Run, file: Path) -> int:
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
    shown = [frame for frame in frames if not is_own(frame.filename)]
    printer.text(_way(shown) + message)
    return _code_of_failure(launches)


def _way(frames: list[traceback.FrameSummary]) -> str:
    """The lines of the program that led to an exception: the first and the last ones."""
    if len(frames) <= _MOST_FRAMES:
        return "".join(traceback.format_list(frames))
    left_out = f"  ... {len(frames) - _MOST_FRAMES:,} calls more\n"
    last = traceback.format_list(frames[1 - _MOST_FRAMES :])
    return "".join([*traceback.format_list(frames[:1]), left_out, *last])


def _frames(error: BaseException, program: str) -> list[traceback.FrameSummary]:
    """The frames from the program's first on: what ran the program is left out."""
    frames = list(traceback.extract_tb(error.__traceback__))
    files = [os.path.realpath(frame.filename) for frame in frames]
    if is_ptx(Path(program)):  # no frames of its own
        return frames
    return frames[files.index(program) :] if program in files else []


def _is_hidden(frame: traceback.FrameSummary) -> bool:
    """Whether the frame is wsemu's, or of code that has no file, such as the `__init__` of a dataclass."""
    return is_own(frame.filename) or not os.path.isfile(frame.filename)


def _is_ours(frame: traceback.FrameSummary) -> bool:
    """Whether an exception there is wsemu's fault, and not the one who called NumPy through it."""
    asked = frame.name == "__getattr__"  # for a name that a module or an object does not have
    return is_own(frame.filename) and os.path.basename(frame.filename) not in _THIN and not asked


def _is_program(frames: list[traceback.FrameSummary], file: Path) -> bool:
    """Whether the program runs again above wsemu: a device function called on the host."""
    return any(os.path.realpath(frame.filename) == os.path.realpath(file) for frame in frames)


def _after(launches: _Run) -> str:
    failed = launches.count("failed")
    if launches.missing:
        return f" after {_plural(launches.missing, 'launch', 'es')} that did not run: their results are missing"
    if failed:
        return f" after {failed} failed launch{'es' * (failed > 1)}: its arrays may hold only a part of the results"
    return "" if launches.verdicts else " before it launched a kernel"
