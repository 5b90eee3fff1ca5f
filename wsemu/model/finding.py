"""Findings of a check, as data: `Site`, `Finding`, `Counters`, `Report`.  Only `wsemu.report` turns them into text.

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
"""`kernel` of a report on what happens between launches"""


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
    """`warp 1 (DMA)`, or `warp 1` where no role is known."""
    return f"{who} ({role})" if role else who


class Site(Record):
    """A source location, and what a warp did there.

    Lines and columns start at 1; columns count bytes of UTF-8, as Python's compiler does, and `end_column` is the first
    one after the place.
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
    """symbolic, such as `0:32` or `s, lane`"""
    primary: bool = True
    """true for the site to look at first; other sites explain it"""

    @classmethod
    def at(cls, span: Span, text: str = "", **fields: Any) -> Self:
        """The site of a front end's span, whose columns start at 0."""
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
        """`warp 1 (DMA)`, or `` when no warp is known."""
        return "" if self.warp is None else with_role(f"warp {self.warp}", self.role)


class Step(Record):
    """One step of a schedule: a warp runs until it has executed this instruction."""

    cta: Index
    warp: Annotated[int, Field(ge=0)]
    does: str
    """`arrive`, `sync`, `load`, `store`, `atomic`; `exit` where others wait for the whole CTA"""
    instruction: Annotated[int, Field(ge=0)]
    """number of the bytecode instruction"""
    nth: Annotated[int, Field(ge=0)] = 0
    """execution of it by the warp, from 1; 0 where that is not known"""
    line: int
    what: str = ""
    """accessed object: `tile[s, lane]`; for a barrier see below"""
    barrier: int | None = None
    generation: int | None = None
    """in which it is counted"""
    arrived: int | None = None
    """threads of the generation with it"""
    expected: int = 0
    """threads that complete the generation; 0 where that is not known"""
    when: str = ""
    """`i=2`, where the line is executed more than once"""
    mark: str = ""
    """`(1)` or `(2)`, of the two operations that the finding is about"""
    shown: bool = True
    """true if the step is in the text of the schedule; the other steps lead there"""
    lane: Annotated[int, Field(ge=0, lt=32)] | None = None
    """in a schedule of atomics, the only lane that performs its access"""


MOST_SHOWN = 20
"""findings of a launch that are shown where no limit is given: each of them is explained"""
_LATER = ("message", "sites", "notes", "help", "schedule", "schedule_steps", "steps")
"""fields of a finding that its explanation has"""


class Finding(Record):
    """One cause, with its sites in the order to show them.

    A launch may have thousands, so an explanation is computed when it is first read.
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
    """steps of a schedule that shows it, one per line; irrelevant earlier steps are left out"""
    schedule_steps: int = 0
    """number of steps of the whole schedule up to there; 0 if unknown"""
    steps: list[Step] = []
    """the whole schedule as data, for `wsemu replay`"""
    factor: float | None = None
    """cost of an access: n of an n-way bank conflict; sectors moved per sector needed"""
    fingerprint: str = ""
    """identity across runs, which survives moved lines; only in JSON"""
    _explain: Callable[[], Finding] | None = None
    """function that completes it; None: it is complete"""
    _outline: Callable[[], Finding] | None = None
    """function that completes only its sites"""

    @classmethod
    def later(
        cls,
        code: str,
        explain: Callable[[], Finding],
        outline: Callable[[], Finding] | None = None,
        count: int = 1,
        severity: Severity | None = None,
    ) -> Self:
        """Return a finding that calls `explain` when more of it is needed than code, count and severity (by default
        that of its code); `outline` makes a finding with the same locations, and less work."""
        made = cls.model_construct(code=code, count=count, severity=severity or _severity(code))
        for name in _LATER:
            made.__dict__.pop(name, None)
        made._explain, made._outline = explain, outline
        return made

    def then(self, change: Callable[[Finding], Finding]) -> Finding:
        """The finding as `change` makes it of this one, which may be when it is explained."""
        explain = self._explain
        if explain is None:
            return change(self)
        made = self.model_copy()
        made._explain = lambda: change(explain())
        return made

    @property
    def places(self) -> list[Site]:
        """Its sites, perhaps without all of their text: for whoever asks where it is, and not why."""
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
        """`error[race] at copy.py:18: write-after-read hazard on shared `tile[t]``."""
        site = next((site for site in self.places if site.primary), None)
        where = f" at {os.path.basename(site.file)}:{site.line}" if site else ""
        return f"{self.severity}[{self.code}]{where}: {self.message}"


class Suppressed(Record):
    """A finding that the user accepts, and why."""

    finding: Finding
    reason: str
    file: str
    """file of the suppression: a source with a comment, pyproject.toml, or a baseline"""
    line: int
    kind: Literal["source", "configuration", "baseline"]


class Unused(Record):
    """A suppression that matches nothing in a launch which it is about, or that does not count."""

    file: str
    line: int
    message: str


class UnreachedPlace(Record):
    """Synchronization instructions of one line of the source, some of which a launch never executed."""

    operation: str
    file: str
    line: int
    instructions: int
    """number of its instructions that were never executed"""
    of: int
    """number of its instructions; a loop that the compiler unrolled has copies"""


class Unreached(Record):
    """The synchronization instructions of a kernel that a launch never executed."""

    instructions: int
    """number of the kernel's instructions that were never executed"""
    of: int
    """number of the kernel's instructions"""
    places: list[UnreachedPlace] = []
    """unreached lines, the first 20"""


class Scope(Record):
    """The other launches for which a verdict `verified` also holds: they differ only in the listed contents, values and
    loop counts."""

    contents: list[str] = []
    """arrays that it reads and that may hold anything"""
    values: list[str] = []
    """scalars that may have any value of their type"""
    loops: list[str] = []
    """loops that may run any number of times: `the loops in lines 9, 15 (`n`)`; of several entries one at a time, while
    the arguments of the others are as given"""
    limits: list[str] = []
    """launches that it does not cover, each with the reason and the location"""

    def __str__(self) -> str:
        """`for all contents of `x` and all values of `alpha``; nothing where it is for this launch only."""
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
    """CTAs that have to run at once, since they wait for each other, and what a GPU holds."""

    ctas: int
    of: str
    """group of the CTAs: all of a `cluster`, of a cooperative `grid`, or those of the `launch` that wait for each
    other"""
    each: int
    """CTAs of this launch that a multiprocessor holds"""
    limited_by: str
    """exhausted resource: threads, CTAs, shared memory, registers"""
    multiprocessors: int
    known: bool = False
    """true if that number was requested (`sms`); else it is that of the largest GPU of the architecture"""

    @property
    def room(self) -> int:
        """CTAs that fit at once."""
        return self.each * self.multiprocessors

    @property
    def fits(self) -> bool:
        return self.ctas <= self.room

    def __str__(self) -> str:
        """`needs 24 CTAs at once`."""
        return f"needs {self.ctas:,} CTAs at once"

    def occupancy_text(self, arch: str) -> str:
        """`a multiprocessor of sm_90 holds 2 of them (shared memory), a GPU of 132 holds 264`."""
        most = "" if self.known else ", the largest there is,"
        where = f"a multiprocessor of {arch} holds {self.each} of them ({self.limited_by})"
        return f"{where}, a GPU of {self.multiprocessors}{most} holds {self.room:,}"


class Counters(Record):
    """The work of a launch.

    A wavefront is one pass of the 32 banks, a sector 32 bytes; the `ideal_` counts are what the same accesses need at
    least, and 0 where they were not counted.
    """

    warp_instructions: int = 0
    thread_operations: int = 0
    """lanes that executed an instruction, summed over warp instructions"""
    accesses: int = 0
    """thread accesses to shared and global memory, each counted once whatever its width; local arrays are registers"""
    shared_load_wavefronts: int = 0
    shared_store_wavefronts: int = 0
    ideal_shared_load_wavefronts: int = 0
    ideal_shared_store_wavefronts: int = 0
    shared_atomic_wavefronts: int = 0
    ideal_shared_atomic_wavefronts: int = 0
    uncounted_atomics: int = 0
    """executions of shared memory atomics, by warps, whose wavefronts are not counted"""
    uncounted_tiles: int = 0
    """executions, by warps, of tensor copies and of `wgmma`, whose wavefronts in shared memory are not counted"""
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
        """Shared memory wavefronts beyond the minimum; None if the minimum was not counted."""
        ideal = sum(getattr(self, f"ideal_shared_{kind}_wavefronts") for kind in ("load", "store", "atomic"))
        cost = sum(getattr(self, f"shared_{kind}_wavefronts") for kind in ("load", "store", "atomic"))
        return cost - ideal if ideal else None

    @property
    def coalesced(self) -> float | None:
        """Minimum sectors per sector moved, 0 to 1; None if the minimum was not counted."""
        ideal = self.ideal_global_load_sectors + self.ideal_global_store_sectors
        moved = self.global_load_sectors + self.global_store_sectors
        return ideal / moved if ideal and moved else None
