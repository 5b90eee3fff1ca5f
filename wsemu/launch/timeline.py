"""The time line of one CTA, as data: what each warp did step by step, who waited for whom, what the findings are about.

`wsemu.launch.tracing` makes it from a traced run; `wsemu.report` draws it in a terminal, as a page and for Perfetto.

`step`       The unit of the axis: one memory access, fence or warp-wide operation of a warp, or one of its operations
             on a barrier or an mbarrier.  Steps are not cycles.
`when`       Every warp steps as soon as it may: after its own previous operation; after the release, if it waited; and
             for an operation on a barrier, after the previous generation is complete.  Atomics on one address keep
             their order.  A wait for a phase ends after everything that the phase needs.  So what happens before an
             operation is left of it, and two operations in one column are unordered.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Literal

from wsemu.evidence.cost_view import BankPicture, LineCost
from wsemu.evidence.labels import GIVES, WAITS, letter
from wsemu.model.data import NamedTuple, dataclass, field
from wsemu.model.isa import LANES
from wsemu.model.outcome import OF_GROUPS

if TYPE_CHECKING:
    from wsemu.evidence.labels import Group
    from wsemu.launch.result import Report
    from wsemu.model.outcome import Status

Kind = Literal[
    "access", "atomic", "fence", "warp", "arrive", "sync", "stop", "arrive_on", "await", "mbarrier", "copy", "landed"
]  # fmt: skip
"""kind of a step.  `stop`: the hardware or the emulator ends the launch here.  For mbarriers: `arrive_on`, `await` (a
wait for a phase), and the names of other operations.  `copy`: copies are issued; `landed`: a wait for groups of
copies"""


_LETTERS = 26


class Place(NamedTuple):
    """The text, the source location and the group of an instruction."""

    text: str
    """`store tile[lane]`, `arrive`"""
    file: str
    line: int
    group: Group = "load"


class Step(NamedTuple):
    """One operation of a warp."""

    warp: int
    at: int
    until: int | None
    """the step in which the warp continues; None for a sync or a wait for a phase that is never released"""
    kind: Kind
    pc: int
    barrier: int = -1
    """a named barrier, or the address of an mbarrier"""
    generation: int = -1
    """number of the generation, or phase"""


class Stretch(NamedTuple):
    """Operations of a warp between two barrier operations."""

    warp: int
    at: int
    until: int
    steps: tuple[Step, ...]


@dataclass(slots=True)
class Generation:
    """A generation of a named barrier, or a phase of an mbarrier, from its first operation to its completion."""

    barrier: int
    """or the address of an mbarrier"""
    number: int
    first: int
    last: int
    """step of the latest operation so far"""
    until: int | None = None
    """the step in which the waiting warps continue; None if it does not complete"""
    steps: list[int] = field(default_factory=list)
    """its operations, as indices of `Timeline.steps`"""
    arrivals: int = 0
    """number of arrivals in a phase"""
    bytes: int = 0
    """bytes that a phase received"""

    @property
    def arrived_threads(self) -> int:
        """Return the number of threads that its operations count (B3), or the number of arrivals of a phase."""
        return self.arrivals or LANES * len(self.steps)


class Copy(NamedTuple):
    """Asynchronous copies that one execution of an instruction issued."""

    warp: int
    at: int
    until: int | None
    """the step in which a thread observes their completion, because a phase that counts their bytes is complete or the
    warp has waited for all its groups; None if no thread does"""
    pc: int
    bytes: int


class Warp(NamedTuple):
    """A warp of the CTA.  `until` is the step after its last one; `exited` is true if it exited."""

    number: int
    role: str
    """role in the transfer patterns that it calls"""
    until: int
    exited: bool
    does: str = ""
    """`producer` or `consumer`, from the shared memory that it uses"""

    @property
    def described_role(self) -> str:
        """Return a text such as `DMA, producer`, or an empty text without a role."""
        return ", ".join(filter(None, (self.role, self.does)))


class Mark(NamedTuple):
    """An operation that a finding is about."""

    finding: int
    """index in `Report.findings`"""
    part: int
    """1 for the earlier and 2 for the later of two operations; 0 for a single one"""
    step: int
    """index in `Timeline.steps`"""

    @property
    def label(self) -> str:
        """Return a label such as `A1` or `A2`: the letter of the finding, and the number of the operation in the
        report."""
        return f"{letter(self.finding)}{self.part or ''}"


@dataclass(frozen=True, slots=True)
class Timeline:
    """One CTA of a launch, with the costs of the whole launch."""

    report: Report
    cta: int
    """linear index of the CTA"""
    index: tuple[int, int, int]
    """the CTA's position in the grid"""
    warps: tuple[Warp, ...]
    steps: tuple[Step, ...]
    """steps in the order of the run; the positions of a warp's steps ascend"""
    generations: tuple[Generation, ...]
    """ascending by barrier, then number"""
    marks: tuple[Mark, ...]
    places: dict[int, Place]
    """text and location of each instruction in `steps`"""
    status: Status = "done"
    """status of the run that it shows"""
    complete: bool = True
    """false if the end is omitted: see `tracing.MOST_EVENTS`"""
    lines: tuple[LineCost, ...] = ()
    banks: tuple[BankPicture, ...] = ()
    copies: tuple[Copy, ...] = ()
    arguments: tuple[tuple[str, str], ...] = ()
    """name of each argument, and its value or its type: `x`, `float32[64]`"""
    mbarriers: dict[int, str] = field(default_factory=dict)
    """names such as `full[1]` of the used mbarriers, by ascending address"""

    def name(self, barrier: int) -> str:
        """Return a name such as `barrier 2` or `full[1]`."""
        if barrier in OF_GROUPS:
            return OF_GROUPS[barrier]
        return self.mbarriers.get(barrier, f"barrier {barrier}")

    def letter(self, barrier: int) -> str:
        """Return a short name of a barrier: `2`, or `a` for the first mbarrier."""
        if barrier not in self.mbarriers:
            return str(barrier)
        number = [*self.mbarriers].index(barrier)
        return chr(ord("a") + number) if number < _LETTERS else "#"

    def generation_text(self, barrier: int, number: int) -> str:
        """Return a text such as `generation 3` or `phase 3`."""
        if number < 0:
            return "new"
        return f"{self.unit_name(barrier)} {number}"

    def unit_name(self, barrier: int) -> str:
        """Return the unit that a barrier counts: `generation`, `phase`."""
        return "phase" if barrier in self.mbarriers else "generation"

    def arrived_text(self, generation: Generation) -> str:
        """Return a text such as `64 threads arrived` or `1 arrivals, 4,096 bytes`."""
        if generation.barrier in self.mbarriers:
            return f"{generation.arrivals:,} arrivals, {generation.bytes:,} bytes"
        return f"{generation.arrived_threads:,} threads arrived"

    @property
    def length(self) -> int:
        """Return the number of steps from the first to the last."""
        return max((warp.until for warp in self.warps), default=0)

    @property
    def is_stuck(self) -> bool:
        """Return whether incomplete waits last forever; otherwise the run was stopped, or its end is omitted."""
        return self.status == "deadlock" and self.complete

    def stretches(self) -> list[Stretch]:
        """Return the stretches of the warps between their barrier operations, warp by warp."""
        return [stretch for run in self._runs().values() for stretch in run]

    def _runs(self) -> dict[int, list[Stretch]]:
        found: dict[int, list[Stretch]] = {warp.number: [] for warp in self.warps}
        open_: defaultdict[int, list[Step]] = defaultdict(list)
        for step in (*self.steps, *(Step(warp.number, 0, 0, "sync", -1) for warp in self.warps)):
            mine = open_[step.warp]
            if step.kind not in (*GIVES, *WAITS, "stop"):
                mine.append(step)
            elif mine:
                found[step.warp].append(Stretch(step.warp, mine[0].at, mine[-1].at + 1, tuple(mine)))
                mine.clear()
        return found

    def edges(self) -> list[tuple[Step, Step]]:
        """Return each arrive with each sync, or wait for its phase, that it releases."""
        pairs = []
        for generation in self.generations:
            steps = [self.steps[n] for n in generation.steps]
            syncs = [step for step in steps if step.kind in WAITS and step.until is not None]
            pairs += [(step, sync) for step in steps if step.kind in GIVES for sync in syncs]
        return pairs

    def where(self, step: Step) -> str:
        """Return an operation in words: `arrive barrier 1 generation 0`, `store tile[lane]`."""
        text = f"stops at {self.places[step.pc].text}" if step.kind == "stop" else self.places[step.pc].text
        if step.barrier < 0:
            return text
        does = {"arrive_on": "arrive", "await": "wait"}.get(step.kind, step.kind)
        does = text if step.kind == "mbarrier" else does
        return f"{does} {self.name(step.barrier)} {self.generation_text(step.barrier, step.generation)}"

    def _repr_html_(self) -> str:
        """Return the time line as HTML for a notebook."""
        from wsemu.report.html import timeline_fragment

        return timeline_fragment(self)
