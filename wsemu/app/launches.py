"""The launches of a running program: each is reported when it ends, and counted for the exit code."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Any

from wsemu.app.advance import Advance
from wsemu.app.exit_codes import FAILED, INCOMPLETE
from wsemu.launch.check import not_run
from wsemu.launch.hooks import adding_hook, advancing, observers, refused, starting
from wsemu.model.data import dataclass, field
from wsemu.model.errors import MistypedError, UnsupportedError
from wsemu.model.finding import BETWEEN, MOST_SHOWN
from wsemu.report.diagnostic import clean, plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wsemu.app.fix import Fixes
    from wsemu.app.own_checks import OwnChecks
    from wsemu.launch.replay.witness_file import Saver
    from wsemu.launch.result import Report
    from wsemu.model.bound import Bound
    from wsemu.model.errors import WsemuError
    from wsemu.model.finding import Verdict
    from wsemu.model.launch_shape import LaunchConfiguration
    from wsemu.report.sink import Sink


@dataclass(slots=True)
class Launches:
    """The launches of a program so far."""

    printer: Sink
    limit: int | None = None
    """maximum number of findings that are shown for all launches together; None: `MOST_SHOWN` for each launch"""
    quiet: bool = False
    """report only launches that are not verified, each problem once"""
    saver: Saver | None = None
    running: str = ""
    """name of the kernel whose launch is running"""
    fixes: Fixes | None = None
    checks: OwnChecks | None = None
    """the program's own checks, which judge fixes"""
    advance: Advance = field(default_factory=Advance)
    verdicts: list[Verdict] = field(default_factory=list)
    between: list[Verdict] = field(default_factory=list)
    """verdicts of reports about the order between launches, without verified ones"""
    kernels: set[str] = field(default_factory=set)
    reasons: dict[str, None] = field(default_factory=dict)
    """reasons for incomplete launches, in order of occurrence"""
    warnings: int = 0
    refused: list[WsemuError] = field(default_factory=list)
    """errors that the program's launches raised"""
    missing: int = 0
    """number of launches that did not run because of something not modeled"""
    is_of_host: bool = False
    """true after a program that used no device, whose exit code is that of the command"""
    unchecked: int = 0
    """number of launches that were not selected"""
    told: set[Any] = field(default_factory=set)
    shown: int = 0
    """number of findings that were shown"""
    left_out: int = 0
    """number of findings beyond the limit"""
    suppressed: int = 0
    """number of findings that the user accepts"""
    used: set[tuple[str, int]] = field(default_factory=set)
    """suppressions that accepted a finding, by file and line"""
    unused: dict[tuple[str, int], str] = field(default_factory=dict)
    """suppressions that match nothing in a launch -> the message about each"""

    @contextlib.contextmanager
    def observing_launches(self) -> Iterator[None]:
        """Observe launches inside the `with` block."""
        with (
            adding_hook(observers, self.observe),
            adding_hook(refused, self.refuse),
            adding_hook(starting, self.start),
            adding_hook(advancing, self.advance),
        ):
            try:
                yield
            finally:
                self.advance.end()

    def start(self, bound: Bound) -> None:
        self.running = bound.program.name
        self.advance.begin()

    @property
    def progress_text(self) -> str:
        """Return a text such as `in `sgemv` (12 of 4,000 CTAs), after 3 launches`."""
        where = f"in `{self.running}`{self.advance}, " if self.running else ""
        return f"{where}after {plural(len(self.verdicts), 'launch', 'es')}"

    def observe(self, report: Report) -> None:
        self.advance.end()
        flush()
        self.running = ""
        if self.fixes is not None:
            self.fixes.observe(report)
        if report.kernel == BETWEEN:
            self.between += [report.verdict] * (report.verdict != "verified")
        else:
            self.verdicts.append(report.verdict)
            self.kernels.add(report.kernel)
        self.reasons.update(dict.fromkeys(report.reasons))
        self.warnings += len(report.warnings)
        self.suppressed += len(report.suppressed)
        self.used.update((entry.file, entry.line) for entry in report.suppressed)
        self.unused.update(((entry.file, entry.line), entry.message) for entry in report.unused)
        if not self.quiet:
            self.show(report)
        elif report.verdict != "verified" and self._is_new_failure(report):
            self.show(report.of_errors())
        elif self.printer.needs_all_launches and report.kernel != BETWEEN:
            self.printer.report(report, ())
        for path in self.saver.save(report) if self.saver else ():
            self.printer.text(f"replay: wsemu replay {clean(str(path))}")

    def _is_new_failure(self, report: Report) -> bool:
        """Return whether no earlier launch had the same findings."""
        places = (tuple((site.file, site.line) for site in finding.places) for finding in report.errors)
        return self._is_new(report.kernel, *places, *report.notes)

    def show(self, report: Report) -> None:
        """Print a launch, with findings up to the limit.  An interrupt ends the search for edits, but the findings are
        printed."""
        try:
            helped = report.helped()
            helped = self.checks.confirm(helped) if self.checks is not None else helped
        except KeyboardInterrupt:
            self._tell(report.unhelped())
            raise
        self._tell(helped)

    def _tell(self, report: Report) -> None:
        room = MOST_SHOWN if self.limit is None else max(self.limit - self.shown, 0)
        shown = report.findings[:room]
        self.shown += len(shown)
        self.left_out += len(report.findings) - len(shown)
        self.printer.report(report, shown)

    def refuse(self, kernel: Any, configuration: LaunchConfiguration, error: WsemuError) -> bool:
        """Count a launch that could not run; return whether the program continues, which it does if a feature is not
        modeled."""
        self.refused.append(error)
        if not isinstance(error, UnsupportedError):
            return False
        flush()
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

    def first_swallowed_error(self, ending: BaseException | None) -> WsemuError | None:
        """Return the first error of a launch that the program caught, so that no user saw it; None if there is none.

        Errors that a GPU raises as well do not count: a program may catch them.
        """
        known = (UnsupportedError, MistypedError)
        hidden = (e for e in self.refused if e is not ending and not isinstance(e, known))
        return next(hidden, None)

    def count(self, verdict: Verdict) -> int:
        return self.verdicts.count(verdict)

    @property
    def exit_code(self) -> int:
        verdicts = {*self.verdicts, *self.between}
        if "failed" in verdicts:
            return FAILED
        return INCOMPLETE if "incomplete" in verdicts else 0

    def idle(self) -> None:
        """Report suppressions that no launch used."""
        for (file, line), message in self.unused.items():
            if (file, line) not in self.used:
                self.printer.notice(message, file, line)

    def total(self) -> None:
        """Print the total over all launches, if there are several or nothing else was printed."""
        if self.left_out:
            self.printer.text(f"{plural(self.left_out, 'finding')} not shown: raise `--limit`", "warning")
        if len(self.verdicts) <= (not self.quiet) and not self.between:
            return
        parts = [f"{self.count(v)} {v}" for v in ("verified", "failed", "incomplete") if self.count(v)]
        if self.reasons:
            parts[-1] += f" ({', '.join(self.reasons)})"
        extent = f"{plural(len(self.kernels), 'kernel')}, {plural(len(self.verdicts), 'launch', 'es')}"
        if self.between:
            counts = [f"{self.between.count(v)} {v}" for v in ("failed", "incomplete", "verified") if v in self.between]
            parts.append(f"between launches: {', '.join(counts)}")
        more = f"; {plural(self.warnings, 'warning')}, shown by `wsemu check`" if self.quiet and self.warnings else ""
        if self.quiet and self.suppressed:
            more = f"; {plural(self.suppressed, 'finding')} suppressed{more}"
        self.printer.text(f"{extent}: {', '.join(parts)}{more}", "strong")


def flush() -> None:
    """Write the program's buffered output, unless the program has replaced its output."""
    with contextlib.suppress(AttributeError, ValueError):
        sys.stdout.flush()
