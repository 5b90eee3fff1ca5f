"""`wsemu check --fix`: edits that fix a program's launches, printed as a patch or written into its files.

A kernel with several failed launches gets the first edit that fixes all of them.
"""

from __future__ import annotations

import linecache
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from wsemu.app.program_file import read_source
from wsemu.model.data import dataclass, field
from wsemu.model.finding import BETWEEN
from wsemu.model.settings import current
from wsemu.report.diagnostic import display_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wsemu.app.order_fixes import Rerun
    from wsemu.launch.result import Report
    from wsemu.model.cure import Cure
    from wsemu.report.sink import Sink

_LAUNCHES = 16
"""maximum number of a kernel's launches that an edit has to fix; later launches are not kept"""


@dataclass(slots=True)
class Fixes:
    """The launches of a program that have findings, by kernel."""

    reports: dict[str, list[Report]] = field(default_factory=dict)
    rerun: Rerun | None = None
    """runs edited texts of the program, for findings between its launches"""

    def observe(self, report: Report) -> None:
        """Keep a launch that edits may fix."""
        if report.findings:
            known = self.reports.setdefault(report.kernel, [])
            if len(known) < _LAUNCHES:
                known.append(report)

    def finish(self, printer: Sink, code: int, *, write: bool) -> None:
        """Print the patch; `write` asks the user, and edits the files.  `code` is the exit code of the program's
        launches."""
        found = [*self._cures()]
        if not found:
            printer.text(self._explain_absence(code))
            return
        for cure in [cure for cure in found if not cure.changes]:
            name = display_path(cure.file)
            why = (
                "" if any(edit.kind == "launch" for edit in cure.edits) else ", which a compiler wrote: edit its source"
            )
            printer.text(f"no patch of `{name}`{why}: {cure.says}", "warning")
        found = [cure for cure in found if cure.changes]
        for cure in found:
            name = display_path(cure.file)
            printer.text("\n".join([f"--- a/{name}", f"+++ b/{name}", *cure.diff]))
        if write and found:
            self._write(found, printer)

    def _explain_absence(self, code: int) -> str:
        """Return the line that replaces a patch."""
        if not self.reports:
            return "no fix: nothing was found that an edit may cure" if code else "no fix is needed"
        if {*self.reports} == {BETWEEN} and self.rerun is not None:
            return f"no fix: no wait that was tried in `{display_path(str(self.rerun.file))}` is a cure"
        if any(report.keeps_launch() for reports in self.reports.values() for report in reports):
            return "no fix: no edit that was tried is a cure"
        return (
            "no fix: no edit was tried: launches of more than 64 MiB, with a device heap or of several ranks get none, "
            "and warnings of host programs get none: launch the kernel alone, on small arrays"
        )

    def _cures(self) -> Iterator[Cure]:
        """Yield, for each kernel, an edit that fixes all of its launches and breaks no other launch; at most one edit
        per file."""
        files: set[str] = set()
        for kernel, reports in self.reports.items():
            cure = self._cure_order(reports) if kernel == BETWEEN else _cure_for_all(reports)
            if cure is not None and cure.file not in files:
                files.add(cure.file)
                yield cure

    def _cure_order(self, reports: list[Report]) -> Cure | None:
        """Return an edit that orders operations of the program."""
        from wsemu.app.order_fixes import find_order_fix

        return None if self.rerun is None else find_order_fix(reports, self.rerun)

    def _write(self, found: list[Cure], printer: Sink) -> None:
        for cure in found:
            name = display_path(cure.file)
            path = Path(cure.file)
            if not path.is_file():
                printer.text(f"`{name}` is no file: it is as it was", "warning")
                continue
            now, encoding = read_source(path)
            if now.replace("\r\n", "\n") != "".join(linecache.getlines(cure.file)):
                printer.text(f"`{name}` has changed since it ran: it is as it was", "warning")
            elif not _ask_user(f"edit `{name}`: {cure.says}{cure.caution}? [y/N] "):
                printer.text(f"`{name}` is as it was")
            else:
                path.write_bytes(_apply_cure(cure, now).encode(encoding))
                printer.text(f"edited `{name}`: {cure.says}")


def _apply_cure(cure: Cure, text: str) -> str:
    """Return the text with the edits; new lines end like the first line."""
    if "\r\n" not in text:
        return cure.applied(text)
    changes = ((edit, [c.model_copy(update={"text": c.text.replace("\n", "\r\n")}) for c in edit.changes])
               for edit in cure.edits)  # fmt: skip
    edits = [edit.model_copy(update={"changes": new}) for edit, new in changes]
    return cure.model_copy(update={"edits": edits}).applied(text)


def _cure_for_all(reports: list[Report]) -> Cure | None:
    """Return the first edit that fixes all failed launches of a kernel, and breaks no other launch of it, earlier or
    later."""
    first, *others = reports

    def right(cure: Cure) -> bool:
        return cure.is_proven and all(other.is_cured_by(cure) for other in others) and not first.breaks_with(cure)

    known = first.cures()
    found = next(filter(right, known), None)
    if found is None and any(map(first.breaks_with, known)):  # a later launch breaks with the edit
        found = next(filter(right, first.cures(budget=current().fix_budget)), None)
    return found


def _ask_user(question: str) -> bool:
    """Return whether the user answers yes; False without a terminal."""
    print(question, end="", file=sys.stderr, flush=True)
    try:
        return input().strip().lower() in ("y", "yes")
    except EOFError:
        return False
