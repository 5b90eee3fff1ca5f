"""What a check found, as data: `Site`, `Finding`, `Counters`, `Report`.  Only `wsemu.report` turns them into text.

A report is JSON: `Report.model_validate_json(report.model_dump_json()) == report`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from wsemu.codes import CODES
from wsemu.errors import CheckFailed

if TYPE_CHECKING:
    from typing import Self

    from wsemu.bytecode import Span

Severity = Literal["error", "warning"]
Verdict = Literal["verified", "failed", "incomplete"]
HoldsIn = Literal["every schedule", "some schedules"]
EXIT_CODES: dict[Verdict, int] = {"verified": 0, "failed": 1, "incomplete": 3}


def _severity(code: str) -> Severity:
    return "warning" if CODES[code][0] == "warning" else "error"


class _Data(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


def _padded(value: Any, with_: int) -> Any:
    """An int or a short tuple as three numbers."""
    if isinstance(value, int):
        value = (value,)
    return (*value, with_, with_)[:3] if isinstance(value, (tuple, list)) and len(value) < 3 else value


Index = Annotated[tuple[int, int, int], BeforeValidator(lambda value: _padded(value, 0))]
"""of a CTA in the grid: 3 means (3, 0, 0)"""
Extent = Annotated[tuple[int, int, int], BeforeValidator(lambda value: _padded(value, 1))]
"""of a grid or block: 3 means (3, 1, 1)"""


class Site(_Data):
    """A place in the source and what a warp did there.

    Lines and columns start at 1; columns count bytes of UTF-8, as Python's compiler does, and `end_column` is the first
    one after the place.
    """

    file: str
    line: int
    column: int
    end_column: int
    end_line: int = Field(default_factory=lambda data: data["line"])
    cta: Index | None = None
    warp: int | None = None
    role: str = ""
    """what the warp is for, such as `DMA` or `compute`; empty when not known"""
    text: str = ""
    """the label under the source: `(2) stored by warp 1 (DMA), i=1`"""
    array: str | None = None
    index: str | None = None
    """symbolic, such as `0:32` or `s, lane`"""
    primary: bool = True
    """where to look first; others explain it"""

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
        if self.warp is None:
            return ""
        return f"warp {self.warp} ({self.role})" if self.role else f"warp {self.warp}"


class Finding(_Data):
    """One cause, with its sites in the order to show them."""

    code: str
    message: str
    """lowercase, no full stop; stands alone"""
    severity: Severity = Field(default_factory=lambda data: _severity(data["code"]))
    sites: list[Site] = []
    notes: list[str] = []
    help: str | None = None
    holds_in: HoldsIn | None = None
    count: int = 1
    """how many times the same cause was seen"""
    schedule: list[str] = []
    """steps of an order of execution that shows it, one a line; earlier steps that do not matter are left out"""
    schedule_steps: int = 0
    """steps of the whole schedule up to there; 0 where that is not known"""

    @field_validator("code")
    @classmethod
    def _known(cls, code: str) -> str:
        if code not in CODES:
            raise ValueError(f"unknown finding code {code!r}: one of {', '.join(CODES)}")
        return code


class Counters(_Data):
    """What a launch executed.

    A wavefront is one pass of the 32 banks, a sector 32 bytes; the `ideal_` counts are what the same accesses need at
    least, and 0 where they were not counted.
    """

    warp_instructions: int = 0
    thread_operations: int = 0
    """lanes that executed an instruction, summed over warp instructions"""
    accesses: int = 0
    """of threads to shared and global memory, each counted once whatever its width; local arrays are registers"""
    shared_load_wavefronts: int = 0
    shared_store_wavefronts: int = 0
    ideal_shared_load_wavefronts: int = 0
    ideal_shared_store_wavefronts: int = 0
    global_load_sectors: int = 0
    global_store_sectors: int = 0
    ideal_global_load_sectors: int = 0
    ideal_global_store_sectors: int = 0
    barrier_operations: int = 0
    """of warps"""
    instruction_mix: dict[str, int] = {}
    """warp instructions by class, as `bytecode.Operation.group` names them"""

    @property
    def bank_conflicts(self) -> int | None:
        """Shared memory wavefronts beyond the ideal; None where the ideal was not counted."""
        ideal = self.ideal_shared_load_wavefronts + self.ideal_shared_store_wavefronts
        return self.shared_load_wavefronts + self.shared_store_wavefronts - ideal if ideal else None

    @property
    def coalesced(self) -> float | None:
        """Ideal sectors per sector moved, 0 to 1; None where the ideal was not counted."""
        ideal = self.ideal_global_load_sectors + self.ideal_global_store_sectors
        moved = self.global_load_sectors + self.global_store_sectors
        return ideal / moved if ideal and moved else None


class Report(_Data):
    """The outcome of one checked launch."""

    kernel: str
    grid: Extent
    block: Extent
    verdict: Verdict
    arch: str = "sm_90"
    dynamic_shared: int = 0
    """bytes"""
    findings: list[Finding] = []
    counters: Counters = Counters()
    notes: list[str] = []
    """about the launch as a whole, such as why it is incomplete"""
    reasons: list[str] = []
    """why it is incomplete in a word each, for the sum over many launches: `atomics`, `step budget`"""
    proof: str = ""
    """what a `verified` launch was shown to be: `deadlock-free and race-free in every schedule`"""
    seconds: float = 0.0
    """wall-clock time of the check"""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.verdict == "failed") != bool(self.errors):
            raise ValueError(f"verdict {self.verdict!r} with {len(self.errors)} errors")
        return self

    @property
    def errors(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.severity == "error"]

    @property
    def warnings(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.severity == "warning"]

    @property
    def exit_code(self) -> int:
        """0 verified, 1 failed, 3 incomplete."""
        return EXIT_CODES[self.verdict]

    def assert_clean(self) -> None:
        """CheckFailed unless the launch is verified; an incomplete one is not."""
        if self.verdict != "verified":
            raise CheckFailed(self)

    def __str__(self) -> str:
        return f"{self.kernel}: {self.verdict}, {len(self.errors)} errors, {len(self.warnings)} warnings"
