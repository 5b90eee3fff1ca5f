"""`wsemu run ./app` and `wsemu run train.py`: a program as it is, each launch checked."""

from __future__ import annotations

import signal
import sys
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from wsemu.app import endings
from wsemu.app.exit_codes import FAILED, INCOMPLETE, USAGE
from wsemu.model.data import NamedTuple
from wsemu.model.errors import UsageError
from wsemu.native.server import run_program
from wsemu.native.session import Watch
from wsemu.report.diagnostic import clean, plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wsemu.app.launches import Launches
    from wsemu.launch.ptx.module import PtxKernel
    from wsemu.launch.result import Report
    from wsemu.model.errors import WsemuError
    from wsemu.native.messages import LaunchMessage
    from wsemu.native.session import Session

SHOWN_ALIKE = 3
"""lines that launches of one kernel with one shape and verdict get"""


class Selection(NamedTuple):
    """The launches of a program that are checked."""

    skip: int = 0
    """launches, of the kernels that are checked, that run unchecked first"""
    most: int = 0
    """launches that are checked after those; 0: all"""


class Lines:
    """A line for each launch, those of equal ones counted after the first."""

    def __init__(self, launches: Launches) -> None:
        self._launches = launches
        self._seen: dict[tuple[Any, ...], int] = {}
        self._number = 0

    def observe(self, report: Report) -> None:
        """Print the line of a launch."""
        self._number += 1
        key = (report.kernel, report.grid, report.block, report.verdict)
        self._seen[key] = self._seen.get(key, 0) + 1
        if self._seen[key] > SHOWN_ALIKE:
            return
        shape = f"{_extent(report.grid)} x {_extent(report.block)}"
        text = f"launch {self._number:,}: {clean(report.kernel)} {shape}: {report.verdict}"
        self._launches.printer.text(f"{text} ({report.seconds * 1e3:.1f} ms)")

    def finish(self) -> None:
        """Print how many launches got no line."""
        hidden = sum(max(count - SHOWN_ALIKE, 0) for count in self._seen.values())
        if hidden:
            self._launches.printer.text(f"{plural(hidden, 'more launch', 'es')} like these")


class Watched(Watch):
    """The command's observer of a program."""

    def __init__(self, launches: Launches, selection: Selection, kernels: Sequence[str]) -> None:
        self._launches = launches
        self._selection = selection
        self._kernels = kernels
        self._reached = 0
        self.unchecked = 0
        self.refusals = 0

    def admits(self, kernel: PtxKernel) -> bool:
        """Return whether the launch that is under way is checked."""
        wanted = self._reached > self._selection.skip
        return wanted and (not self._selection.most or self._reached <= self._selection.skip + self._selection.most)

    def launching(self, session: Session, kernel: PtxKernel, message: LaunchMessage, configuration: Any) -> None:
        """Count a launch."""
        if self._kernels and not any(fnmatchcase(kernel.__name__, pattern) for pattern in self._kernels):
            return
        self._reached += 1
        if not self.admits(kernel):
            self.unchecked += 1

    def note_refusal(self, what: str, error: WsemuError) -> None:
        """Report what the program got an error for."""
        self.refusals += 1
        if what == "module":
            self._launches.verdicts.append("incomplete")
            self._launches.missing += 1
            self._launches.reasons["PTX"] = None
            self._launches.printer.error(error)
        elif not any(error is known for known in self._launches.refused[:-1]):
            self._launches.printer.text(f"{clean(what)}: the program gets an error: {clean(str(error))}", "warning")


def run(command: Sequence[str], launches: Launches, selection: Selection, kernels: Sequence[str]) -> int:
    """Run a command; return the exit code for how it ended, 0 for success."""
    from wsemu.launch.hooks import hooked, observers

    watched, lines = Watched(launches, selection, kernels), Lines(launches)
    sys.stdout.flush()
    try:
        with hooked(observers, lines.observe):
            ended = run_program(command, watched)
    except OSError as error:
        raise UsageError(f"`{command[0]}` cannot be run: {error.strerror or error}") from None
    finally:
        lines.finish()
        if watched.unchecked:
            launches.printer.text(f"{plural(watched.unchecked, 'launch', 'es')} ran unchecked")
    return _exit_code(ended.code, launches)


def _exit_code(code: int, launches: Launches) -> int:
    if code < 0:
        name = signal.Signals(-code).name if -code in {int(one) for one in signal.Signals} else f"signal {-code}"
        launches.printer.text(f"the program was ended by {name}", "error")
        return FAILED
    if code == 0:
        return 0
    found = endings.handle_system_exit(SystemExit(code), launches)
    return FAILED if found in (0, USAGE, INCOMPLETE) and launches.verdicts and not launches.missing else found


def _extent(extent: Sequence[int]) -> str:
    sizes = [*extent]
    while len(sizes) > 1 and sizes[-1] == 1:
        sizes.pop()
    return f"({', '.join(map(str, sizes))})"
