"""`wsemu check FILE` and `wsemu run FILE`: run a Python program, or launch a kernel of a PTX file, check every launch
in it, and report the findings."""

from __future__ import annotations

import contextlib
import os
import runpy
import signal
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wsemu.app.advance import Advance
from wsemu.app.exit_codes import EACH, FAILED, INCOMPLETE, INTERRUPTED, NO_LAUNCH, USAGE
from wsemu.app.launches import Launches
from wsemu.app.program_file import Target, is_ptx, refusal, run_as_main
from wsemu.app.program_kind import find_command
from wsemu.app.selection import EVERY, Selector
from wsemu.host import takeover
from wsemu.launch.hooks import adding_hook, admitting, around, passed_over
from wsemu.model import settings as _settings
from wsemu.model.arch import limits
from wsemu.model.errors import UsageError, WsemuError
from wsemu.report.diagnostic import plural
from wsemu.report.terminal import Printer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from wsemu.app.fix import Fixes
    from wsemu.app.own_checks import OwnChecks
    from wsemu.app.selection import Selection
    from wsemu.launch.replay.witness_file import Saver
    from wsemu.launch.result import Report
    from wsemu.model.launch_shape import LaunchConfiguration
    from wsemu.report.sink import Sink


class Enough(BaseException):
    """Ends a program whose remaining part is not needed.  It is a BaseException, because the program may catch any
    Exception."""


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
    progress: str = "bar",
    as_ptx: bool | None = None,
    selection: Selection = EVERY,
    flags: Sequence[str] = (),
) -> int:
    """Run `file` as `__main__` with `arguments`; returns the exit code of `wsemu check`.

    Inside, `numba.cuda` is wsemu's.  `quiet`, as for `wsemu run`, suppresses verified launches; `limit` is the number
    of findings that are shown; `time_limit` is the number of seconds after which the program is stopped.  `saver` keeps
    the witnesses of errors, and `fixes` the edits that fix them.  With a name in `module` that module is run, of which
    `file` is the source, as by `python -m`.  `progress` is the display for long launches: `bar`, `json` or `none`.
    With `as_ptx` the file is PTX, whatever its name; None: the name decides.  A program in another language, or one
    that uses a package which launches through CUDA's driver, runs as it is, in a process of its own; `selection` limits
    which launches are checked.  CUDA C++ with a `main` is compiled first, with `flags` of `nvcc`.
    """
    as_ptx = is_ptx(file) if as_ptx is None else as_ptx
    printer = printer or Printer()
    with contextlib.ExitStack() as stack:
        try:
            command = None if as_ptx else find_command(file, arguments, module)
            if not as_ptx and is_ptx(file):
                command = [stack.enter_context(_compiled_program(file, settings, flags)), *arguments]
        except UsageError as error:
            printer.error(error)
            return USAGE
        if command is not None:
            launches = Launches(printer, limit, quiet, saver, fixes=fixes, advance=Advance(progress))
            return _run_as_it_is(command, file, settings, launches, time_limit, selection)
    if selection.save:
        printer.text(f"error: `--save-launches` is for CUDA programs, and `{file}` is none", "error")
        return USAGE
    if why := refusal(file, as_ptx=as_ptx):
        printer.text(f"error: {why}", "error")
        return USAGE
    passed_over.clear()
    launches = Launches(printer, limit, quiet, saver, fixes=fixes, advance=Advance(progress))
    launches.checks = None if as_ptx else _own_checks(file, arguments, module, settings)
    debugging = adding_hook(around, _run_with_breakpoints) if quiet and not around else contextlib.nullcontext()
    with launches.observing_launches(), _selecting(selection, launches), debugging:
        code, ending = _run_program(Target(file, arguments, as_ptx), settings, launches, time_limit, module)
    hidden = launches.first_swallowed_error(ending)
    if hidden is not None:
        printer.error(hidden)
        printer.text("the program caught this error of a launch and went on", "warning")
        code = code or launches.exit_code or USAGE
    launches.idle()
    launches.total()
    if not code and not launches.verdicts:
        return _end_without_launch(file, settings, launches, "call one as `kernel[grid, block](...)`")
    return code or launches.exit_code


def _own_checks(file: Path, arguments: Sequence[str], module: str, settings: _settings.Settings) -> OwnChecks | None:
    """Return the program's own checks if it is written in Python and has some."""
    from wsemu.app.own_checks import OwnChecks

    return OwnChecks.of(file, tuple(arguments), module, settings) if settings.fix_budget else None


@contextlib.contextmanager
def _selecting(selection: Selection, launches: Launches) -> Iterator[None]:
    """Check only the selected launches, and report the number of other launches."""
    if not selection.skip and not selection.most:
        yield
        return
    selector = Selector(selection)
    try:
        with adding_hook(admitting, selector):
            yield
    finally:
        launches.unchecked = selector.unchecked
        if selector.unchecked:
            launches.printer.text(f"{plural(selector.unchecked, 'launch', 'es')} ran unchecked")


def _run_program(
    target: Target,
    settings: _settings.Settings,
    launches: Launches,
    time_limit: float | None,
    module: str,
) -> tuple[int, BaseException | None]:
    """Run the program; return an exit code, and the wsemu exception that ended the program, if any."""
    printer, file = launches.printer, target.file
    try:
        limits(settings.arch)
        with (
            _settings.using(settings),
            takeover.numba_cuda(),
            takeover.propagating_to_subprocesses(),
            run_as_main(file, target.arguments, module),
            _limiting_time(time_limit),
        ):
            _execute(target, module)
    except TimeUp:
        printer.text(f"the time limit of {time_limit:g} s is reached {launches.progress_text}", "warning")
        return launches.exit_code or INCOMPLETE, None
    except KeyboardInterrupt:
        printer.text(f"interrupted {launches.progress_text}", "warning")
        return INTERRUPTED, None
    except SystemExit as exit_:
        return _endings().handle_system_exit(exit_, launches), None
    except Enough:
        raise
    except BrokenPipeError as error:
        if error.errno is not None:  # the output pipe is closed; without an `errno`, the program raised the error
            raise
        return _endings().handle_exception(error, launches, target), None
    except WsemuError as error:
        return _endings().handle_refusal(error, launches, target), error
    except BaseException as error:  # a program may raise any BaseException
        return _endings().handle_exception(error, launches, target), None
    return 0, None


@contextlib.contextmanager
def _compiled_program(file: Path, settings: _settings.Settings, flags: Sequence[str]) -> Iterator[str]:
    """Compile CUDA C++ with a `main` in a folder that is removed afterwards."""
    from wsemu.launch.ptx.nvcc import compile_program, split_flags

    with tempfile.TemporaryDirectory(prefix="wsemu-program-") as folder, _settings.using(settings):
        program = os.path.join(folder, file.stem)
        compile_program(os.path.abspath(file), split_flags(" ".join(flags)), program)
        yield program


def _run_as_it_is(
    command: Sequence[str],
    file: Path,
    settings: _settings.Settings,
    launches: Launches,
    time_limit: float | None,
    selection: Selection,
) -> int:
    """Run a program on wsemu's driver; return the exit code."""
    from wsemu.app import native_program

    printer, ending = launches.printer, 0
    passed_over.clear()
    try:
        limits(settings.arch)
        selecting = _selecting(selection, launches)
        with launches.observing_launches(), _settings.using(settings), _limiting_time(time_limit), selecting:
            ending = native_program.run(command, file, launches, selection.save)
    except TimeUp:
        printer.text(f"the time limit of {time_limit:g} s is reached {launches.progress_text}", "warning")
        ending = launches.exit_code or INCOMPLETE
    except KeyboardInterrupt:
        printer.text(f"interrupted {launches.progress_text}", "warning")
        ending = INTERRUPTED
    except UsageError as error:
        printer.error(error)
        return USAGE
    launches.idle()
    launches.total()
    if launches.is_of_host and settings.allow_incomplete and ending == INCOMPLETE:
        ending = FAILED  # this exit code of the program is no incomplete launch, which is allowed
    if not ending and not launches.verdicts and not launches.is_of_host:
        how = "check what its CUDA calls return; operators of torch run on the CPU, and are not checked"
        return _end_without_launch(file, settings, launches, how)
    return ending or launches.exit_code


def _endings() -> Any:
    """Import the module that reports unusual ends of programs, which few programs need."""
    from wsemu.app import endings

    return endings


def _execute(target: Target, module: str) -> None:
    if target.is_ptx:
        from wsemu.app import ptx_launch

        ptx_launch.run(target.file, target.arguments)
    elif target.file.suffix.lower() == ".toml":
        from wsemu.app import sequence_file

        sequence_file.run(target.file)
    elif module:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(str(target.file), run_name="__main__")


def _run_with_breakpoints(
    kernel: Any, configuration: LaunchConfiguration, arguments: Sequence[Any], run: Callable[[], Report]
) -> Report:
    """Run a launch of `wsemu run`; the debugger starts where the kernel calls `breakpoint()`."""
    code = getattr(getattr(kernel, "py_func", None), "__code__", None)
    if code is not None and "breakpoint" in code.co_names:
        from wsemu.app.debugger import Debugger

        Debugger(lambda _: True, waits="c").step(kernel, configuration, arguments)
    return run()


def _end_without_launch(file: Path, settings: _settings.Settings, launches: Launches, how: str) -> int:
    """Report that no launch was checked; return the exit code, which is 0 for modules of kernels."""
    if EACH in os.environ and not launches.unchecked and not passed_over:
        launches.printer.text(f"note: `{file}` launched no kernel: nothing was checked")
        return NO_LAUNCH
    launches.printer.text(f"error: {_explain_no_launch(file, settings, launches, how)}", "error")
    return USAGE


def _explain_no_launch(file: Path, settings: _settings.Settings, launches: Launches, how: str) -> str:
    """Return why no launch was checked; `how` is the remedy if the program launched none."""
    if launches.unchecked:
        return (
            f"`{file}` made {plural(launches.unchecked, 'launch', 'es')}, and none is selected: lower `--launch-skip`"
        )
    if passed_over:
        wanted = ", ".join(f"`{pattern}`" for pattern in settings.kernels)
        return f"`{file}` launched no kernel named {wanted}, but {', '.join(f'`{name}`' for name in passed_over)}"
    return f"`{file}` launched no kernel: {how}"


def crosscheck(file: Path, arguments: Sequence[str], options: dict[str, Any], launch: Mapping[str, Any]) -> int:
    """Run `file` on the emulator, then its launches on a GPU with the `options` of `crosscheck.compare`; returns the
    exit code of `wsemu crosscheck`."""
    from wsemu.app.chosen import resolve_settings
    from wsemu.app.targets import find_target
    from wsemu.launch.crosscheck import Recorder, compare

    recorder, printer = Recorder(), Printer()
    try:
        target = find_target(file, arguments, launch)
        chosen, settings = resolve_settings(file, {})
    except UsageError as error:
        printer.error(error)
        return USAGE
    with adding_hook(around, recorder):
        code = run(target.file, target.arguments, settings, printer=printer, limit=chosen.limit, as_ptx=target.is_ptx)
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


class TimeUp(KeyboardInterrupt):
    """Raised in code that can be interrupted when the time limit is reached."""


@contextlib.contextmanager
def _limiting_time(seconds: float | None) -> Iterator[None]:
    """Raise TimeUp after this number of seconds, if the system has timers."""
    if seconds is None or not hasattr(signal, "setitimer"):
        yield
        return

    def ring(*_: object) -> None:
        raise TimeUp

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
