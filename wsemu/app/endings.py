"""The end of a program: its report and its exit code."""

from __future__ import annotations

import os
import traceback
from typing import TYPE_CHECKING

from wsemu.app.exit_codes import FAILED, INCOMPLETE, INTERNAL, USAGE
from wsemu.launch.result import CheckFailed
from wsemu.model import remembered
from wsemu.model.errors import KernelError, ResultError, UnsupportedError, WsemuError
from wsemu.model.own import is_own
from wsemu.model.program import Span
from wsemu.report.diagnostic import plural
from wsemu.report.terminal import internal_error

if TYPE_CHECKING:
    from pathlib import Path

    from wsemu.app.launches import Launches
    from wsemu.app.program_file import Target

_THIN = ("device_array.py", "driver.py", "xoroshiro.py", "reduction.py", "takeover.py", "vectorize.py", "errors.py")
"""modules of host functions; an error that they raise is the program's fault"""
_MOST_FRAMES = 6
"""maximum number of the program's own frames that are shown for an exception"""


def handle_system_exit(exit_: SystemExit, launches: Launches) -> int:
    """Report that the program called `sys.exit`, and return the exit code."""
    if exit_.code is None or exit_.code == 0:
        return 0
    if isinstance(exit_.code, int):
        launches.printer.text(f"the program ended with exit code {exit_.code}{_after(launches)}", "error")
    else:
        launches.printer.text(f"the program stopped{_after(launches)}: {_as_text(exit_.code)}", "error")
    return _code_of_failure(launches)


def _as_text(value: object) -> str:
    """Return a value of the program as text, even if it cannot be printed."""
    try:
        return str(value)
    except Exception:
        return f"an object of type {type(value).__name__}, whose text raises an exception"


def _code_of_failure(launches: Launches) -> int:
    """Return the exit code of a failed program: that of its launches if some are missing, since they may be the
    cause."""
    if launches.missing:
        return launches.exit_code
    return FAILED if launches.verdicts else USAGE


def handle_refusal(error: WsemuError, launches: Launches, target: Target) -> int:
    """Report a launch that could not be checked, or a failed check in the program, and return the exit code."""
    if isinstance(error, CheckFailed):
        launches.printer.text(f"the program stopped at a failed check of `{error.report.kernel}`", "error")
        return FAILED
    if isinstance(error, ResultError):
        launches.printer.text(f"error: {error}", "error")
        return FAILED
    launches.printer.error(error if isinstance(error, KernelError) and error.span else _locate_error(error, target))
    if launches.count("failed"):
        return FAILED
    return INCOMPLETE if isinstance(error, UnsupportedError) else USAGE


def _locate_error(error: WsemuError, target: Target) -> WsemuError:
    """Return the error with the innermost user location that led to it."""
    frame = next((f for f in reversed(_frames(error, target)) if not _is_hidden(f)), None)
    if frame is None or frame.lineno is None:
        return error
    end = (frame.end_lineno or frame.lineno, frame.end_colno or 0)
    span = Span(frame.filename, frame.lineno, frame.colno or 0, *end)
    if isinstance(error, KernelError):
        error.span = span
        return error
    return KernelError(str(error), span)


def handle_exception(error: BaseException, launches: Launches, target: Target) -> int:
    """Report an exception, and decide by the innermost frame whether the program or wsemu is at fault; return the exit
    code."""
    printer = launches.printer
    frames = [frame for frame in _frames(error, target) if frame.filename != remembered.__file__]
    message = "".join(traceback.format_exception_only(error)).strip()
    ours = [_is_ours(frame) for frame in frames]
    if any(ours) and not _is_program(frames[-1 - ours[::-1].index(True) :], target.file):
        frame = frames[-1 - ours[::-1].index(True)]
        internal_error(printer, error, frame, ", not of your program: please report it with the program")
        return INTERNAL
    printer.text(f"the program raised an exception{_after(launches)}:", "error")
    shown = [frame for frame in frames if not is_own(frame.filename)]
    printer.text(_way(shown) + message)
    return _code_of_failure(launches)


def _way(frames: list[traceback.FrameSummary]) -> str:
    """Return the lines of the program that led to an exception; if there are many, omit the middle ones."""
    if len(frames) <= _MOST_FRAMES:
        return "".join(traceback.format_list(frames))
    left_out = f"  ... {len(frames) - _MOST_FRAMES:,} calls more\n"
    last = traceback.format_list(frames[1 - _MOST_FRAMES :])
    return "".join([*traceback.format_list(frames[:1]), left_out, *last])


def _frames(error: BaseException, target: Target) -> list[traceback.FrameSummary]:
    """Return the frames from the program's first one on, without frames that run the program."""
    frames = list(traceback.extract_tb(error.__traceback__))
    if target.is_ptx:  # PTX has no Python frames
        return frames
    program, files = os.path.realpath(target.file), [os.path.realpath(frame.filename) for frame in frames]
    return frames[files.index(program) :] if program in files else []


def _is_hidden(frame: traceback.FrameSummary) -> bool:
    """Return whether a frame belongs to wsemu, or to code without a file, such as the `__init__` of a dataclass."""
    return is_own(frame.filename) or not os.path.isfile(frame.filename)


def _is_ours(frame: traceback.FrameSummary) -> bool:
    """Return whether an exception in a frame is a fault of wsemu, and not of a program that calls NumPy through
    wsemu."""
    asked = frame.name == "__getattr__"  # true if the program used a name that does not exist
    return is_own(frame.filename) and os.path.basename(frame.filename) not in _THIN and not asked


def _is_program(frames: list[traceback.FrameSummary], file: Path) -> bool:
    """Return whether code of the program runs above wsemu's frames: a device function called on the host."""
    return any(os.path.realpath(frame.filename) == os.path.realpath(file) for frame in frames)


def _after(launches: Launches) -> str:
    failed = launches.count("failed")
    if launches.missing:
        return f" after {plural(launches.missing, 'launch', 'es')} that did not run: their results are missing"
    if failed:
        return f" after {failed} failed launch{'es' * (failed > 1)}: its arrays may hold only a part of the results"
    return "" if launches.verdicts else " before it launched a kernel"
