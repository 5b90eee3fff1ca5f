"""The timeline of a program between its launches: the operations of the host and of each stream.

An operation is shown one step after the last operation that happens before it.  So operations of one step may run at
the same time.  The steps are those of the earliest possible execution if every operation took equally long.
"""

from __future__ import annotations

import bisect
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from wsemu.model.data import NamedTuple, dataclass, field
from wsemu.model.finding import BETWEEN

if TYPE_CHECKING:
    from wsemu.between.operations import Operation
    from wsemu.launch.result import Report
    from wsemu.model.finding import Finding

MOST_OPERATIONS = 2_000
"""maximum number of operations that are kept"""
HOST = "host"
_HIDDEN = ("captured",)
"""operations that do not run"""


class Shown(NamedTuple):
    """An operation in the time line."""

    row: int
    at: int
    does: str
    name: str
    file: str
    line: int
    """line in the file; 0 if it is unknown"""
    findings: tuple[int, ...] = ()
    """numbers of the findings that name it, from 0"""


class StreamTimeline(NamedTuple):
    """Rows of operations: the host, and each stream in the order of its first use."""

    rows: tuple[str, ...]
    shown: tuple[Shown, ...]
    findings: tuple[Finding, ...]
    left_out: int
    """number of operations that are not shown, because there are too many"""

    @property
    def length(self) -> int:
        """Return the number of steps."""
        return max((one.at for one in self.shown), default=-1) + 1


@dataclass(slots=True)
class Watcher:
    """Collects the operations of a program, and the findings between launches."""

    operations: list[Operation] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    left_out: int = 0

    def look(self, operation: Operation) -> None:
        """Record an operation."""
        if operation.does in _HIDDEN:
            return
        if len(self.operations) < MOST_OPERATIONS:
            self.operations.append(operation)
        else:
            self.left_out += 1

    def note(self, report: Report) -> None:
        """Record the findings of a report on the order of launches."""
        if report.kernel == BETWEEN:
            self.findings += report.findings

    def build(self) -> StreamTimeline | None:
        """Return the time line, or None if nothing ran outside of the default stream."""
        rows = list(dict.fromkeys(_row_name(one) for one in self.operations))
        if not [name for name in rows if name != HOST and not name.startswith("default stream")]:
            return None
        rows.sort(key=lambda name: name != HOST)
        steps: defaultdict[int, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
        shown = []
        for one in self.operations:
            at = 0
            for actor, count in one.clock.items():
                counts, ends = steps[actor]
                last = bisect.bisect_right(counts, count) - 1
                at = max(at, ends[last] if last >= 0 else 0)
            counts, ends = steps[one.actor]
            counts.append(one.count)
            ends.append(at + 1)
            where = one.where
            file, line = ("", 0) if where is None else (where.file, where.line)
            marks = tuple([n for n, finding in enumerate(self.findings) if _names(finding, file, line)])
            name = "access" if one.does == one.name == HOST else one.name
            shown.append(Shown(rows.index(_row_name(one)), at, one.does, name, file, line, marks))
        return StreamTimeline(tuple(rows), tuple(shown), tuple(self.findings), self.left_out)


def _row_name(operation: Operation) -> str:
    return operation.stream or HOST


def _names(finding: Finding, file: str, line: int) -> bool:
    """Return whether a finding has a site at a line."""
    return bool(line) and any(site.line == line and Path(site.file).name == Path(file).name for site in finding.sites)
