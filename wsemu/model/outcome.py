"""The result of an engine after a launch: how it ended, its findings and counters.  Data only, shared by both
engines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol

from wsemu.model.arch import DEFAULT
from wsemu.model.data import NamedTuple, dataclass, field

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import numpy as np
    import numpy.typing as npt

EventKind = Literal[
    "arrive", "sync", "complete", "exit", "warp", "fence.cta", "fence.gpu", "fence.sys", "atomic", "access",
    "init", "inval", "arrive_on", "expect", "credit", "await", "phase", "copy", "landed", "proxy",
    "commit",
]  # fmt: skip
"""`complete`: a barrier's generation ends and releases its syncs; `warp` is the warp that completed it, `place` is the
barrier; if no operation has a count, `pc` is the completing operation.  `warp`: syncwarp, shuffle, vote, match.
`exit`: a warp's last lane ended.  `access`: an execution of a requested instruction.

Events of mbarriers, with the address as `place` and the phase as `generation`: `init` and `inval`; `arrive_on`,
`expect` and `credit` (bytes that were transferred), each with its `amount`; `await`, a wait that succeeded; `phase`: a
phase completes.  `copy`: an asynchronous operation writes `amount` bytes to `place`; `generation` is the address that
it reads, or -1 if it writes zeros or its source is not recorded.  `landed`: a wait for groups of copies; `proxy`: a
proxy fence; `commit`: copies are committed to a group.
"""

Status = Literal["done", "deadlock", "budget", "fault", "trap", "stack"]
"""`fault`: the hardware would raise an illegal instruction error; `trap`: an unsupported operation was reached
(`fault_pc`); `stack`: divergence was nested too deeply"""


class Detail(NamedTuple):
    """The declaration of the `detail` of a checker's raw findings: the meaning of each field."""

    always: Mapping[str, str] = {}
    sometimes: Mapping[str, str] = {}
    """fields that only some of these findings have"""

    def allows(self, fields: Iterable[str]) -> bool:
        """Return whether a raw finding may have exactly these fields."""
        return self.always.keys() <= {*fields} <= {*self.always, *self.sometimes, *ANYWHERE}


ANYWHERE = {"other_cta": "the CTA of the earlier operation, by linear index, where it is another one"}
"""fields that a finding of any code may have if CTAs are co-resident"""


@dataclass(slots=True)
class RawFinding:
    """One cause: all findings with the same code at the same one or two instructions.  The fields are those of the
    first occurrence.

    A finding about two operations is reported at the later one.  `pc`, `warp` and `lanes` belong to the later
    operation, `other_pc` and `other_warp` to the earlier one (-1 if there is none).  Further information is in
    `detail`, whose fields the code's checker declares.
    """

    code: str
    pc: int
    cta: int
    warp: int
    lanes: int = 0
    other_pc: int = -1
    other_warp: int = -1
    detail: dict[str, int] = field(default_factory=dict)
    count: int = 1


ALL_LANES = (1 << 32) - 1


class FindingKey(NamedTuple):
    """The code and the instructions of a finding that is not kept, because the table of findings is full."""

    code: str
    pc: int
    other_pc: int


MOST_SAME_VALUES = 1024
"""number of findings of a launch up to which stores of the same value by several lanes are recorded"""
MOST_FINDINGS = 4096
"""maximum number of findings that a launch keeps; for further findings, only their locations are kept"""
COMPARED = 1 << 16
"""maximum number of thread instructions of a launch in which the values of racing stores are compared"""


@dataclass(slots=True)
class WarpState:
    """The state of a warp when a run stopped.  `waits` is the barrier at which it waits, or -1.  `pc` is the barrier
    operation in which it waits.  If the budget is exhausted, it is the next instruction of a warp that can run.
    Otherwise it is the last instruction that the warp executed (an exit, if it has no live lanes)."""

    warp: int
    pc: int
    alive: int
    waits: int = -1
    standing: tuple[tuple[int, int], ...] = ()
    """(instruction, lanes) of each part of the warp that waits for other lanes"""


@dataclass(slots=True)
class BarrierState:
    """A named barrier when a run stopped.  If `expected` is 0, no operation has a count."""

    barrier: int
    generation: int
    arrived: int
    expected: int
    participants: list[int] = field(default_factory=list)
    """warps that took part in the current generation"""
    previous: list[int] = field(default_factory=list)
    """warps that took part in the previous generation"""


class PhaseWait(NamedTuple):
    """Lanes of a warp that wait at an instruction for a phase of an mbarrier to complete."""

    warp: int
    lanes: int
    pc: int
    address: int
    phase: int


CLUSTER_PLACE = -2
"""`place` of an event at the barrier of a cluster"""
GRID_PLACE = -3
"""number of the grid barrier in events"""
OF_GROUPS = {CLUSTER_PLACE: "cluster", GRID_PLACE: "grid"}
"""group of CTAs that synchronizes at a barrier with such a number"""


WARPGROUP = "warpgroup"
"""`kind` of a wait for other warps of a warpgroup, at `wgmma.commit_group`"""


class ObjectWait(NamedTuple):
    """Lanes of a warp that wait at an instruction for a synchronization object whose kind comes from a plug-in or has
    no type of its own."""

    warp: int
    lanes: int
    pc: int
    kind: str
    """name of the object's kind: `latch`"""
    place: int
    """id or address of the object; -1 if only one object of this kind exists"""
    arrived: int
    """number of arrivals so far"""
    expected: int
    """number of arrivals that releases the lanes"""
    missing: tuple[int, ...] = ()
    """CTAs that have not arrived, if CTAs are counted"""


@dataclass(slots=True)
class PhaseState:
    """A live mbarrier when a run stopped."""

    address: int
    phase: int
    """the current phase; the first is 0"""
    pending: int
    """number of arrivals that are pending"""
    expected: int
    """expected arrivals of a phase"""
    tx: int
    """number of bytes still expected; if negative, the surplus that was transferred"""
    init_pc: int


class Pattern(NamedTuple):
    """The costliest execution of an access, compared with the minimum possible cost; the first one if there are
    several.  CTAs count in ascending order."""

    cost: int
    """shared wavefronts or global sectors"""
    cta: int
    segment: int
    """the accessed segment; the highest one if lanes access several arrays"""
    lanes: int
    """lanes that performed the access, as a mask"""
    offsets: tuple[int, ...]
    """offsets of the 32 lanes, in bytes from the start of the segment; 0 for a lane without an access"""


@dataclass(slots=True)
class AccessCount:
    """The counts of one load or store.

    `ideal_wavefronts` is the number of wavefronts without bank conflicts, `ideal_sectors` the minimum number of sectors
    that contain the bytes of each execution.
    """

    executions: int = 0
    """number of executions by warps"""
    lanes: int = 0
    """number of accesses by threads"""
    wavefronts: int = 0
    """number of shared memory wavefronts"""
    ideal_wavefronts: int = 0
    sectors: int = 0
    """number of sectors of global memory, of 32 bytes each"""
    ideal_sectors: int = 0
    uncounted: int = 0
    """warp executions of a shared atomic whose wavefronts no rule determines"""
    worst_wavefronts: Pattern | None = None
    worst_sectors: Pattern | None = None


CTA_FENCE: EventKind = "fence.cta"
FENCES: tuple[EventKind, ...] = (CTA_FENCE, "fence.gpu", "fence.sys")
"""events of memory fences, by scope; each has the name of its operation"""


class Event(NamedTuple):
    """One operation of a traced run; a trace has them in the order of the run.

    `interval` is the warp's interval that ends with the operation, or that contains the access.  A warp's intervals
    count from 1 in each CTA; each arrive, sync (when it is released), fence and warp-wide operation begins the next
    one.
    """

    kind: EventKind
    cta: int
    warp: int
    interval: int
    pc: int
    place: int = -1
    """for arrive, sync and complete, the barrier; for the kind `warp`, the lanes that take part; for `atomic` and
    `access`, the address of the lowest lane"""
    generation: int = -1
    """generation of an arrive, sync or complete"""
    lanes: int = ALL_LANES
    """lanes that execute an arrive or sync, or `ALL_LANES` for all lanes that the warp ever had; for `access`, the
    lanes that performed it"""
    addresses: int = -1
    """for `access`, the position of its addresses in `Trace.addresses`, starting with the lowest lane's; -1: the
    addresses were not requested"""
    amount: int = 0
    """number of arrivals or bytes"""


class Stored(NamedTuple):
    """One lane's store of a traced run."""

    pc: int
    cta: int
    warp: int
    lane: int
    address: int
    size: int
    """number of bytes that were stored"""


@dataclass(slots=True)
class Trace:
    """The events that order the memory accesses of a launch, recorded in a second, identical run."""

    events: list[Event] = field(default_factory=list)
    complete: bool = True
    """false if there were more events than a trace can hold, so that the last ones are missing"""
    stores: list[Stored] = field(default_factory=list)
    """stores in the order of the run, if they were requested"""
    addresses: Sequence[int] | npt.NDArray[np.int64] = ()
    """addresses of the lanes of all `access` events, in the order of the run; each event has the position of its own"""
    readings: dict[frozenset[int], Any] = field(default_factory=dict, compare=False, repr=False)
    """explanations of findings, each computed once, by CTAs: see `schedule.reading`"""

    def lane_addresses(self, event: Event) -> dict[int, int]:
        """Return the address of each lane of a requested access."""
        lanes = [lane for lane in range(event.lanes.bit_length()) if event.lanes >> lane & 1]
        mine = self.addresses[event.addresses : event.addresses + len(lanes)]
        return dict(zip(lanes, map(int, mine), strict=True))

    def part(self, accesses: frozenset[int], cta: int | None = None) -> Trace:
        """Return the part of the trace with only these accesses, and only this CTA."""
        events = [e for e in self.events if cta in (None, e.cta) and (e.kind != "access" or e.pc in accesses)]
        return Trace(events, self.complete, self.stores, self.addresses)


class Tracer(Protocol):
    """Runs a launch again and returns its trace; `accesses` are the instructions whose executions are requested."""

    def __call__(self, accesses: frozenset[int], cta: int | None = None) -> Trace:
        """Return the trace of all CTAs, or of one CTA by its linear index."""


@dataclass(frozen=True, slots=True)
class TraceRequest:
    """The additional contents of a trace, besides operations that order accesses."""

    accesses: frozenset[int] = frozenset()
    """instructions whose executions are requested, as events of kind `access`"""
    stores: bool = False
    """true to record every lane's stores; only the reference interpreter supports it"""


@dataclass(slots=True)
class Outcome:
    """The result of a launch that ran."""

    status: Status
    findings: list[RawFinding] = field(default_factory=list)
    overflow: list[FindingKey] = field(default_factory=list)
    """findings beyond `MOST_FINDINGS`, in the order in which they would be reported"""
    warp_instructions: int = 0
    waits: bool = False
    """true if the launch ended before its budget was exhausted, because all running warps only looped until memory
    changes"""
    repeats: bool = False
    """true if the launch ended before its budget was exhausted, because all running warps returned to earlier states,
    and changed no memory"""
    thread_operations: int = 0
    allocations: tuple[int, int] = (0, 0)
    """most allocations of tensor memory by a CTA, and most columns of all allocations of a CTA together"""
    executions: list[int] = field(default_factory=list)
    """executions by warps, per instruction"""
    accesses: dict[int, AccessCount] = field(default_factory=dict)
    """cost of each access, by instruction"""
    arch: str = DEFAULT
    """architecture of the cost model"""
    cta: int = -1
    """the CTA in which the run stopped, by linear index"""
    fault_pc: int = -1
    fault_warp: int = -1
    warps: list[WarpState] = field(default_factory=list)
    """warps of the CTA that stopped"""
    barriers: list[BarrierState] = field(default_factory=list)
    """barriers with a current generation that is incomplete"""
    phases: list[PhaseState] = field(default_factory=list)
    """the live mbarriers of the CTA that stopped, by address"""
    mbarriers: dict[int, tuple[int, int]] = field(default_factory=dict, compare=False)
    """the last initialization and the count of each mbarrier, live or not, of the CTAs that ran last; by address"""
    phase_waits: list[PhaseWait] = field(default_factory=list)
    """the lanes that wait for phases of mbarriers, by warp and lane"""
    object_waits: list[ObjectWait] = field(default_factory=list)
    """the lanes that wait for other synchronization objects"""
    elsewhere: list[tuple[int, int, int]] = field(default_factory=list)
    """(CTA, warp, instruction) of warps that wait in other co-resident CTAs"""
    group: tuple[int, int, int] = (1, 1, 1)
    """number of CTAs along each axis of a group of co-resident CTAs: a cluster, or the grid"""
    window: int = 40
    """log2 of the bytes between the shared memory addresses of two consecutive co-resident CTAs"""
    trace: Trace | None = None
    """trace, if one was requested"""
    written: dict[int, Any] = field(default_factory=dict, compare=False)
    """a 1 for each byte that is now initialized, for each `Allocated` segment that had uninitialized bytes"""
    equal_stores: frozenset[tuple[int, int]] = frozenset()
    """pairs of plain stores that nothing orders, and that write the same value in every schedule if nothing else
    races"""

    @property
    def is_trap(self) -> bool:
        """Return whether the run stopped at an operation that is not modeled, or at a `trap`."""
        return self.status == "trap"

    def add_initializations(self, events: Iterable[Event]) -> None:
        """Add the mbarriers that a trace initializes."""
        self.mbarriers.update({event.place: (event.pc, event.amount) for event in events if event.kind == "init"})
