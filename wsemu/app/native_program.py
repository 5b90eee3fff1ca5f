"""`wsemu run ./app` and `wsemu run train.py`: run an unmodified program and check each launch."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wsemu.app import endings
from wsemu.app.exit_codes import FAILED, INCOMPLETE, USAGE
from wsemu.model.errors import UsageError
from wsemu.model.finding import BETWEEN
from wsemu.native.fat_binary import MissingPackageError
from wsemu.native.program import check_program
from wsemu.native.server import run_program
from wsemu.native.session import Watch
from wsemu.report.diagnostic import clean, plural
from wsemu.report.terminal import QuietPrinter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wsemu.app.launches import Launches
    from wsemu.app.saved_memory import LaunchSaver
    from wsemu.launch.result import Report
    from wsemu.model.errors import WsemuError
    from wsemu.native.session import Pending
    from wsemu.report.sink import Sink

SHOWN_ALIKE = 3
"""maximum number of lines for launches with the same kernel, shape and verdict"""


LONGEST_NAME = 60
"""maximum characters of a kernel's name in a line"""


class Watched(Watch):
    """The command's observer of a program."""

    renders_reports = False  # imported here: these commands show launches, and few programs are run in this way

    def __init__(self, launches: Launches, saver: LaunchSaver | None) -> None:
        self._launches = launches
        self._saver = saver
        self._pending: Pending | None = None
        self.lacks_package = False
        """true if PTX could not be decompressed because a package is missing"""
        self.uses_device = False
        """true if the program has allocated memory or loaded a module"""

    def note_use(self) -> None:
        """Note that the program allocates memory or loads a module."""
        self.uses_device = True

    def note_launch(self, pending: Pending) -> None:
        """Note a launch that is about to run."""
        self._pending = pending

    def save(self) -> None:
        """Save the launch that is about to run."""
        if self._saver is not None and self._pending is not None:
            kernel, configuration, parameters, memory, module = self._pending
            self._saver.save(kernel, configuration, parameters, memory, module.texts, module.addresses)

    def note_refusal(self, what: str, error: WsemuError) -> None:
        """Report a module or launch for which the program received an error."""
        if isinstance(error, MissingPackageError):
            if not self.lacks_package:
                self._launches.printer.error(error)
            self.lacks_package = True
        elif what == "module":
            self._launches.verdicts.append("incomplete")
            self._launches.missing += 1
            self._launches.reasons["PTX"] = None
            self._launches.printer.error(error)
        elif not any(error is known for known in self._launches.refused):
            self._launches.printer.text(f"{clean(what)}: the program gets an error: {clean(str(error))}", "warning")


class Lines:
    """Prints a line for each launch; equal launches after the first few are only counted."""

    def __init__(self, launches: Launches) -> None:
        self._launches = launches
        self._seen: dict[tuple[Any, ...], int] = {}
        self._number = 0
        self._of_kernel: Counter[str] = Counter()
        self._unverified: dict[tuple[str, str], list[str]] = {}
        """(kernel, verdict) -> codes and reasons, one text for each launch"""

    def observe(self, report: Report) -> None:
        """Print the line of a launch."""
        if report.kernel == BETWEEN:
            return
        self._number += 1
        self._of_kernel[report.kernel] += 1
        if report.verdict != "verified":
            words = dict.fromkeys([*(finding.code for finding in report.errors), *report.reasons])
            self._unverified.setdefault((report.kernel, report.verdict), []).append(", ".join(words))
        key = (report.kernel, report.grid, report.block, report.verdict)
        self._seen[key] = self._seen.get(key, 0) + 1
        if self._seen[key] > SHOWN_ALIKE:
            return
        shape = f"{_extent(report.grid)} x {_extent(report.block)}"
        text = f"launch {self._number:,}: {_shorten(report.kernel)} {shape}: {report.verdict}"
        accepted = f", {len(report.suppressed)} suppressed" if report.suppressed else ""
        self._launches.printer.text(f"{text}{accepted} ({report.seconds * 1e3:.1f} ms)")

    def finish(self) -> None:
        """Print the number of launches without a line."""
        hidden = sum(max(count - SHOWN_ALIKE, 0) for count in self._seen.values())
        if hidden:
            self._launches.printer.text(f"{plural(hidden, 'more launch', 'es')} like these")
        if self._number > 1:
            for (kernel, verdict), why in self._unverified.items():
                words = "; ".join(dict.fromkeys(why))
                of = plural(self._of_kernel[kernel], "launch", "es")
                self._launches.printer.text(f"{_shorten(kernel)}: {len(why):,} of {of} {verdict} ({words})")


def _showing(lines: Lines, printer: Sink) -> contextlib.AbstractContextManager[None]:
    """Show a line for each launch, unless the printer prints no reports."""
    from wsemu.launch.hooks import adding_hook, observers

    quiet = isinstance(printer, QuietPrinter)
    return contextlib.nullcontext() if quiet else adding_hook(observers, lines.observe)


def run(command: Sequence[str], file: Path, launches: Launches, save: str) -> int:
    """Run the command of a file; return the exit code for how it ended, 0 for success.

    `save` names a folder for its launches.  With `wsemu run`, a program that uses no device, such as a build, ends with
    its own exit code.
    """
    from wsemu.launch.hooks import adding_hook, admitting

    saver = None
    if save:
        from wsemu.app.saved_memory import LaunchSaver  # imported here: Pydantic takes long to import

        saver = LaunchSaver(Path(save))
    watched, lines = Watched(launches, saver), Lines(launches)

    def admit(_: str) -> bool:
        watched.save()
        return True

    check_program(Path(command[0]))
    _show_sources(command, file)
    sys.stdout.flush()
    try:
        with _showing(lines, launches.printer), adding_hook(admitting, admit):
            ended = run_program(command, watched)
    except OSError as error:
        raise UsageError(f"`{command[0]}` cannot be run: {error.strerror or error}") from None
    finally:
        lines.finish()
    if launches.quiet and not watched.uses_device and ended.code >= 0:
        launches.is_of_host = True
        launches.printer.text(f"note: `{file}` used no memory and no kernel of the device: nothing was checked")
        return ended.code
    return USAGE if watched.lacks_package else _exit_code(ended.code, launches)


def _show_sources(command: Sequence[str], file: Path) -> None:
    """Let reports show sources below the folders of the program and of the scripts that start it."""
    files = [file, *(Path(word) for word in command if word.endswith(".py") or word == command[0])]
    folders = dict.fromkeys(os.path.dirname(os.path.abspath(file)) for file in files if file.is_file())
    known = os.environ.get("WSEMU_SOURCE_ROOTS", "")
    os.environ["WSEMU_SOURCE_ROOTS"] = os.pathsep.join(filter(None, [known, *folders]))


def _exit_code(code: int, launches: Launches) -> int:
    if code < 0:
        name = signal.Signals(-code).name if -code in {int(one) for one in signal.Signals} else f"signal {-code}"
        launches.printer.text(f"the program was ended by {name}", "error")
        return FAILED
    if code == 0:
        return 0
    found = endings.handle_system_exit(SystemExit(code), launches)
    return FAILED if found in (0, USAGE, INCOMPLETE) and launches.verdicts and not launches.missing else found


def _shorten(kernel: str) -> str:
    """Return the name of a kernel for a line."""
    name = clean(kernel)
    return name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}..."


def _extent(extent: Sequence[int]) -> str:
    sizes = [*extent]
    while len(sizes) > 1 and sizes[-1] == 1:
        sizes.pop()
    return f"({', '.join(map(str, sizes))})"
