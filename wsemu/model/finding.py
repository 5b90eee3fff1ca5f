"""The data of a check: `Site`, `Finding`, `Counters`, `Report`.  Only `wsemu.report` turns them into text.

A report is JSON: `Report.model_validate_json(report.model_dump_json()) == report`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any, Literal

from wsemu.model.codes import CODES
from wsemu.model.record import Padded, Record, derive_default

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from pydantic import AfterValidator, Field

    from wsemu.model.program import Span

Severity = Literal["error", "warning"]
Verdict = Literal["verified", "failed", "incomplete"]
HoldsIn = Literal["every schedule", "some schedules"]


BETWEEN = "between launches"
"""value of `kernel` in a report on operations between launches"""


def _severity(code: str) -> Severity:
    return CODES[code].severity


def _check_code(code: str) -> str:
    if code not in CODES:
        raise ValueError(f"unknown finding code {code!r}: one of {', '.join(CODES)}")
    return code


Index = Annotated[tuple[int, int, int], Padded(0)]
"""index of a CTA in the grid: 3 means (3, 0, 0)"""
Extent = Annotated[tuple[int, int, int], Padded(1)]
"""extent of a grid or block: 3 means (3, 1, 1)"""


def with_role(who: str, role: str) -> str:
    """Return `warp 1 (DMA)`, or `warp 1` if the role is unknown."""
    return f"{who} ({role})" if role else who


class Site(Record):
    """A source location, and what a warp did there.

    Lines and columns start at 1.  Columns count bytes of UTF-8, as in Python's compiler, and `end_column` is the first
    column after the text.
    """

    file: str
    line: int
    column: int
    end_column: int
    end_line: int = derive_default(lambda data: data["line"])
    cta: Index | None = None
    warp: int | None = None
    role: str = ""
    """role of the warp, such as `DMA` or `compute`; empty if unknown"""
    text: str = ""
    """the label under the source: `(2) stored by warp 1 (DMA), i=1`"""
    array: str | None = None
    index: str | None = None
    """index expression of the source, such as `0:32` or `s, lane`"""
    primary: bool = True
    """true for the site to look at first; other sites explain it"""

    @classmethod
    def at(cls, span: Span, text: str = "", **fields: Any) -> Self:
        """Return the site for a span of the front end, whose columns start at 0."""
        return cls(
            file=span.file,
            line=span.line,
            column=span.column + 1,
            end_line=span.end_line,
            end_column=span.end_column + 1,
            text=text,
            **fields,
        )

    @property
    def actor(self) -> str:
        """Return `warp 1 (DMA)`, or an empty text if the warp is unknown."""
        return "" if self.warp is None else with_role(f"warp {self.warp}", self.role)


class Step(Record):
    """One step of a schedule: a warp runs until it has executed this instruction."""

    cta: Index
    warp: Annotated[int, Field(ge=0)]
    does: str
    """kind of the instruction: `arrive`, `sync`, `load`, `store`, `atomic`; `exit` if others wait for the whole CTA"""
    instruction: Annotated[int, Field(ge=0)]
    """number of the bytecode instruction"""
    nth: Annotated[int, Field(ge=0)] = 0
    """number of the execution by the warp, from 1; 0 if unknown"""
    line: int
    what: str = ""
    """accessed object, such as `tile[s, lane]`; barriers have the fields below instead"""
    barrier: int | None = None
    generation: int | None = None
    """generation in which the operation is counted"""
    arrived: int | None = None
    """number of threads that have arrived in the generation, including this operation"""
    expected: int = 0
    """number of threads that complete the generation; 0 if unknown"""
    when: str = ""
    """iteration, such as `i=2`, if the line is executed more than once"""
    mark: str = ""
    """`(1)` or `(2)` for the two operations of the finding"""
    shown: bool = True
    """true if the text of the schedule shows the step; the other steps lead up to it"""
    lane: Annotated[int, Field(ge=0, lt=32)] | None = None
    """in a schedule of atomics, the only lane that performs the access"""


MOST_SHOWN = 20
"""default number of findings of a launch that are shown; each of them is explained"""
_LATER = ("message", "sites", "notes", "help", "schedule", "schedule_steps", "steps")
"""fields of a finding that are computed with its explanation"""


class Finding(Record):
    """One cause, with its sites in the order in which to show them.

    A launch may have thousands of findings, so an explanation is computed when it is first read.
    """

    code: Annotated[str, AfterValidator(_check_code)]
    message: str
    """title: lowercase, no full stop, understandable by itself"""
    severity: Severity = derive_default(lambda data: _severity(data["code"]))
    sites: list[Site] = []
    notes: list[str] = []
    help: str | None = None
    holds_in: HoldsIn | None = None
    count: int = 1
    """number of occurrences of the same cause"""
    schedule: list[str] = []
    """steps of a schedule that shows the finding, one per line, without earlier steps that do not matter"""
    schedule_steps: int = 0
    """number of steps of the whole schedule up to the finding; 0 if unknown"""
    steps: list[Step] = []
    """the whole schedule as data, for `wsemu replay`"""
    factor: float | None = None
    """cost of an access: n for an n-way bank conflict, or sectors moved per needed sector"""
    fingerprint: str = ""
    """identity across runs, which does not change when lines move; only in JSON"""
    _explain: Callable[[], Finding] | None = None
    """function that returns the complete finding; None if this is the complete finding"""
    _outline: Callable[[], Finding] | None = None
    """function that returns the finding with only its sites completed"""

    @classmethod
    def later(
        cls,
        code: str,
        explain: Callable[[], Finding],
        outline: Callable[[], Finding] | None = None,
        count: int = 1,
        severity: Severity | None = None,
    ) -> Self:
        """Return a finding that calls `explain` when more than code, count and severity is needed.  The default
        severity is that of the code.  `outline` returns a finding with the same locations in less time."""
        made = cls.model_construct(code=code, count=count, severity=severity or _severity(code))
        for name in _LATER:
            made.__dict__.pop(name, None)
        made._explain, made._outline = explain, outline
        return made

    def then(self, change: Callable[[Finding], Finding]) -> Finding:
        """Return the finding that `change` computes from this one, perhaps only when the finding is explained."""
        explain = self._explain
        if explain is None:
            return change(self)
        made = self.model_copy()
        made._explain = lambda: change(explain())
        return made

    @property
    def places(self) -> list[Site]:
        """Return the finding's sites, possibly without all of their text.  This takes less time than an explanation."""
        outline = self._outline
        return self.sites if self._explain is None or outline is None else outline().sites

    def _complete(self) -> None:
        explain = self._explain
        if explain is not None:
            self._fill(explain(), _LATER)
        self._explain = self._outline = None

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name not in _LATER:
                raise AttributeError(f"`Finding` has no attribute `{name}`")
            self._complete()
            return self.__dict__[name]

    def __str__(self) -> str:
        """Return a text such as `error[race] at copy.py:18: write-after-read hazard on shared `tile[t]``."""
        site = next((site for site in self.places if site.primary), None)
        where = f" at {os.path.basename(site.file)}:{site.line}" if site else ""
        return f"{self.severity}[{self.code}]{where}: {self.message}"


class Suppressed(Record):
    """A finding that the user accepts, with the reason."""

    finding: Finding
    reason: str
    file: str
    """location of the suppression: a source file with a comment, pyproject.toml, or a baseline"""
    line: int
    kind: Literal["source", "configuration", "baseline"]


class Unused(Record):
    """A suppression that has no effect, or that matches no finding of a launch to which it applies."""

    file: str
    line: int
    message: str


class UnreachedPlace(Record):
    """A line of the source with synchronization instructions, some of which a launch never executed."""

    operation: str
    file: str
    line: int
    instructions: int
    """number of the line's instructions that were never executed"""
    of: int
    """number of the line's instructions; an unrolled loop contributes several copies"""


class Unreached(Record):
    """The synchronization instructions of a kernel that a launch never executed."""

    instructions: int
    """number of the kernel's instructions that were never executed"""
    of: int
    """number of the kernel's instructions"""
    places: list[UnreachedPlace] = []
    """unreached lines, the first 20"""


class Scope(Record):
    """The other launches for which a verdict `verified` also holds.  They differ only in the listed contents, values
    and loop counts."""

    contents: list[str] = []
    """arrays that the launch reads and that may have any contents"""
    values: list[str] = []
    """scalars that may have any value of their type"""
    loops: list[str] = []
    """loops that may run any number of times, such as `the loops in lines 9, 15 (`n`)`.  Each entry may vary alone,
    while the arguments of the other entries keep their values"""
    limits: list[str] = []
    """launches that the verdict does not cover, each with the reason and the location"""

    def __str__(self) -> str:
        """Return a text such as `for all contents of `x` and all values of `alpha``, or an empty text if the verdict
        holds for this launch only."""
        said = [
            f"all {what} of {', '.join(f'`{name}`' for name in names)}"
            for what, names in (("contents", self.contents), ("values", self.values)) if names
        ]  # fmt: skip
        parts = [f"for {' and '.join(said)}"] if said else []
        if self.loops:
            apart = ", one argument at a time" if len(self.loops) > 1 else ""
            parts.append(f"for every trip count of {' or of '.join(self.loops)}{apart}, the other sizes as given")
        return ", ".join(parts)


class Residency(Record):
    """The CTAs that must be co-resident because they wait for each other, and the number that fits on a GPU."""

    ctas: int
    of: str
    """group that the CTAs form: a `cluster`, a cooperative `grid`, or those CTAs of the `launch` that wait for each
    other"""
    each: int
    """number of CTAs of this launch that fit on a multiprocessor"""
    limited_by: str
    """resource that limits this number: threads, CTAs, shared memory, registers"""
    multiprocessors: int
    known: bool = False
    """true if the number of multiprocessors was specified (`sms`); otherwise the limit is that of the largest GPU of
    the architecture"""

    @property
    def room(self) -> int:
        """Return the number of CTAs that fit at once."""
        return self.each * self.multiprocessors

    @property
    def fits(self) -> bool:
        return self.ctas <= self.room

    def __str__(self) -> str:
        """Return a text such as `needs 24 CTAs at once`."""
        return f"needs {self.ctas:,} CTAs at once"

    def occupancy_text(self, arch: str) -> str:
        """Return a text such as `a multiprocessor of sm_90 holds 2 of them (shared memory), a GPU of 132 holds 264`."""
        most = "" if self.known else ", the largest there is,"
        where = f"a multiprocessor of {arch} holds {self.each} of them ({self.limited_by})"
        return f"{where}, a GPU of {self.multiprocessors}{most} holds {self.room:,}"


class Counters(Record):
    """The work of a launch.

    A wavefront is one pass over the 32 banks, a sector has 32 bytes.  The `ideal_` counts are the minimum for the same
    accesses, or 0 if they were not counted.
    """

    warp_instructions: int = 0
    thread_operations: int = 0
    """lanes that executed an instruction, summed over warp instructions"""
    accesses: int = 0
    """number of accesses by threads to shared and global memory, each counted once whatever its width; accesses to
    local arrays do not count"""
    shared_load_wavefronts: int = 0
    shared_store_wavefronts: int = 0
    ideal_shared_load_wavefronts: int = 0
    ideal_shared_store_wavefronts: int = 0
    shared_atomic_wavefronts: int = 0
    ideal_shared_atomic_wavefronts: int = 0
    uncounted_atomics: int = 0
    """warp executions of shared memory atomics whose wavefronts are not counted"""
    uncounted_tiles: int = 0
    """warp executions of tensor copies and of `wgmma`, whose wavefronts in shared memory are not counted"""
    global_load_sectors: int = 0
    global_store_sectors: int = 0
    ideal_global_load_sectors: int = 0
    ideal_global_store_sectors: int = 0
    barrier_operations: int = 0
    """barrier operations that warps executed"""
    instruction_mix: dict[str, int] = {}
    """warp instructions by class, as `isa.Operation.group` names them"""

    @property
    def bank_conflicts(self) -> int | None:
        """Return the shared memory wavefronts beyond the minimum, or None if the minimum was not counted."""
        ideal = sum(getattr(self, f"ideal_shared_{kind}_wavefronts") for kind in ("load", "store", "atomic"))
        cost = sum(getattr(self, f"shared_{kind}_wavefronts") for kind in ("load", "store", "atomic"))
        return cost - ideal if ideal else None

    @property
    def coalesced(self) -> float | None:
        """Return the minimum number of sectors per moved sector, from 0 to 1, or None if the minimum was not
        counted."""
        ideal = self.ideal_global_load_sectors + self.ideal_global_store_sectors
        moved = self.global_load_sectors + self.global_store_sectors
        return ideal / moved if ideal and moved else None
