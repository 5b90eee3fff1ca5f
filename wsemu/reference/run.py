"""The slow interpreter: one lane at a time, in plain Python, sharing no code with the VM.

It is the oracle for the VM and the debugging mode (`check(..., engine="reference")`).  A warp's lanes are kept in
*groups* that run one after another; lanes that diverge at a branch belong to a *region*, which ends at the join, where
they wait for each other (`warp.py`).  Memory, named barriers, exchange between lanes, arithmetic and the search for
races each have their own file.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from wsemu.model.arch import DEFAULT
from wsemu.model.bound import Allocated
from wsemu.model.control_flow import CTA_COST, flow_lengths
from wsemu.model.errors import UnsupportedError
from wsemu.model.grid import Grouping, place, window
from wsemu.model.isa import FIRST_ARRAY, LANES, LOCAL, NAMES, SEGMENT_SHIFT, SHARED, SIZE
from wsemu.model.outcome import (
    MOST_FINDINGS,
    MOST_SAME_VALUES,
    BarrierState,
    FindingKey,
    Outcome,
    RawFinding,
    Status,
    WarpState,
)
from wsemu.reference.agents.copy import Issued, report_outliving
from wsemu.reference.agents.outstanding import Groups
from wsemu.reference.arithmetic import from_float, to_unsigned
from wsemu.reference.asynchronous import FAMILIES
from wsemu.reference.matrix.warpgroup import Part
from wsemu.reference.matrix.wgmma import GroupRegisters
from wsemu.reference.memory.same_values import SameValueWatch
from wsemu.reference.memory.shadow import Options, Watch
from wsemu.reference.memory.thread_shadow import ThreadWatch
from wsemu.reference.repeats import Repeats
from wsemu.reference.state import Group, Segment, Warp
from wsemu.reference.sync import cluster_barrier, peers
from wsemu.reference.sync.cancellation import Cancellation
from wsemu.reference.sync.cluster_barrier import ClusterBarrier
from wsemu.reference.sync.grid_barrier import GridBarrier
from wsemu.reference.sync.mbarrier import Mbarrier, Mbarriers, waiting
from wsemu.reference.sync.named_barrier import BARRIERS, Barrier, StopError, report_dangling
from wsemu.reference.sync.register_pool import RegisterPool
from wsemu.reference.warp import WarpRun

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wsemu.model.grid import Extent
    from wsemu.model.outcome import Status, TraceRequest
    from wsemu.model.program import Program
    from wsemu.reference.sync.thread_clocks import Mark, ThreadOrder
    from wsemu.reference.undefined import Undefined

Rows = dict[int, tuple[str, int | float | bool]]
"""parameter row -> (type, value), as a launch initializes it"""
Bytes = npt.NDArray[np.uint8]


MOST_WARPS = 128
"""maximum number of warps in a group of several CTAs: each lane has clocks of all other lanes"""


class BudgetError(Exception):
    """The step budget is exhausted."""


def run(
    program: Program,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    rows: Rows,
    segments: Sequence[tuple[Bytes, bool]],
    *,
    dynamic_shared: int = 0,
    budget: int = 1_000_000_000,
    arch: str = DEFAULT,
    races: bool = True,
    lockstep: bool = False,
    strict: bool = False,
    converged: bool = False,
    values: bool = False,
    init_fences: bool = False,
    other_lanes: bool = False,
    recycling: bool = True,
    initialised: bool = True,
    read_only: bool = True,
    uninitialized: frozenset[int] = frozenset(),
    trace: TraceRequest | None = None,
    shape: Extent = (1, 1, 1),
    clusters: bool = False,
    stopped: Callable[[WarpRun, list[int], int], None] | None = None,
    undefined: Undefined | None = None,
    first_granule: int = 0,
    successors: Sequence[int] = (),
    starting: int = 0,
) -> Outcome:
    """Run a launch, one group of CTAs after another.  Arrays in `segments` (bytes, writable?) are changed in place.

    `rows` are the parameter rows, `dynamic_shared` the bytes of dynamic shared memory, `budget` the warp instructions
    after which the run ends, `arch` the cost model.

    With `converged`, the lanes of an operation on an mbarrier are converged, so each of them follows, in time,
    everything that any of them did before.  `values` distinguishes stores of the same value to one location
    (`same-value-store`) from races.  `init_fences` requires a fence between the initialization of an mbarrier and a
    copy that credits it.  With `other_lanes`, findings about phases name the lane of the earlier operation.  `strict`
    reports lanes that store one value.  `races` checks for races; with `lockstep`, races between lanes of a warp are
    excluded.  `recycling` checks for barriers reused too early, `initialised` for reads of uninitialized memory: shared
    and local memory, and the arrays with the segment numbers `uninitialized`.  `read_only` checks for writes to data
    that is loaded through the read-only cache.  `trace` requests the events of the run.  A group of CTAs of this
    `shape` is alive at once; in `clusters`, its CTAs access each other's shared memory.  `stopped` is called with the
    warp, the instruction and its lanes, for each value that a stop of the debugger shows.  `undefined` follows
    undefined values.  The search for free tensor memory begins at `first_granule`.  `successors` maps each cluster to
    the cluster that the next request cancels.  Only the first `starting` clusters start without a request; 0 means all
    of them.
    """
    options = Options(
        races, lockstep, recycling, initialised, read_only, uninitialized, trace, strict, converged, values,
        init_fences, other_lanes,
    )  # fmt: skip
    groups = Grouping(grid, shape)
    launch = Launch(program, groups, block, rows, segments, dynamic_shared, budget, options, clusters=clusters)
    launch.stopped = stopped
    launch.undefined, launch.first_granule, launch.successors = undefined, first_granule, successors
    outcome = launch.outcome
    outcome.arch = arch
    outcome.window = launch.window
    outcome.group = shape if clusters or program.cooperative else (1, 1, 1)
    outcome.status = _run_groups(launch, starting or groups.number)
    return _complete_outcome(launch)


def _run_groups(launch: Launch, number: int) -> Status:
    """Run the first groups of a launch, and return the status of the last one that ran."""
    status: Status = "done"
    for group in range(number):
        launch.budget -= CTA_COST * (launch.grouping.members - (group == 0))
        status = CtaGroup(launch, group).run()
        if status != "done":
            break
    return status


def _complete_outcome(launch: Launch) -> Outcome:
    """Return the outcome of a launch with the findings of the whole run, the trace and the maps of written bytes."""
    outcome = launch.outcome
    outcome.findings += launch.watch.read_only.findings(launch.program)
    outcome.findings.sort(key=lambda finding: (finding.code, finding.pc, finding.other_pc))
    outcome.overflow.sort()
    outcome.trace = launch.watch.trace
    outcome.written = {
        number: np.array(segment.written)
        for number, segment in enumerate(launch.arrays, FIRST_ARRAY)
        if segment.written is not None and _is_allocated(segment.writable)
    }
    return outcome


class Launch:
    """State that all CTAs share: code, arrays, findings, counters."""

    def __init__(
        self,
        program: Program,
        groups: Grouping,
        block: Extent,
        rows: Rows,
        segments: Sequence[tuple[Bytes, bool]],
        dynamic_shared: int,
        budget: int,
        options: Options,
        *,
        clusters: bool = False,
    ) -> None:
        self.program = program
        self.grouping, self.clusters = groups, clusters
        self.grid, self.block = groups.grid, block
        self.threads = block[0] * block[1] * block[2]
        warps = groups.members * -(-self.threads // LANES)
        if groups.members > 1 and warps > MOST_WARPS:
            raise UnsupportedError(
                f"{warps:,} warps at once on the reference engine: at most {MOST_WARPS} that meet",
                remedy="use the fast engine, or launch fewer warps at once",
            )
        self.code: list[list[int]] = program.code.tolist()
        self.lengths: list[int] = flow_lengths(program.code).tolist()
        self.dynamic_shared = dynamic_shared
        self.dynamic_offset = -(-program.shared_bytes // 16) * 16
        self.shared_bytes = self.dynamic_offset + dynamic_shared
        self.window = (
            window(self.shared_bytes, asynchronous=program.asynchronous, columns=program.uses_columns)
            if groups.members > 1
            else SEGMENT_SHIFT
        )
        """log2 of the distance in bytes between the shared memories of two consecutive CTAs of a group"""
        self.budget = budget
        self.initialised = options.initialised
        blank = {n for n in options.uninitialized if self.initialised or _is_allocated(segments[n - FIRST_ARRAY][1])}
        self.arrays = [
            Segment(
                memoryview(data.data).cast("B"),
                writable,
                _initialized_marks(data, writable) if number in blank else None,
            )
            for number, (data, writable) in enumerate(segments, FIRST_ARRAY)
        ]
        self.fixed: Rows = {row: (type_, value) for row, type_, value in program.constants}
        self.fixed.update(rows)
        self.outcome = Outcome("done", executions=[0] * len(self.code))
        self.stopped: Callable[[WarpRun, list[int], int], None] | None = None
        self.undefined: Undefined | None = None
        self.first_granule = 0
        self.successors: Sequence[int] = ()
        self.found: dict[tuple[str, int, int], RawFinding] = {}
        """findings by code and instructions; in the copy of a CTA, only findings in this CTA"""
        self.watch = self._watch(options)

    def _watch(self, options: Options) -> Watch:
        if options.values:
            watch = SameValueWatch(self.program, options, self.report, self.grouping, -(-self.threads // LANES))
            watch.arrays = self.arrays
            return watch
        if self.program.asynchronous:
            return ThreadWatch(self.program, options, self.report, self.grouping, -(-self.threads // LANES))
        return Watch(self.program, options, self.report, self.grouping)

    def report(self, finding: RawFinding) -> None:
        """Record a finding, or count it if its code was reported at the same instructions before."""
        key = (finding.code, finding.pc, finding.other_pc)
        known = self.found.get(key)
        if known is None:
            if finding.code == "same-value" and len(self.outcome.findings) >= MOST_SAME_VALUES:
                return  # notes must not use up the maximum number of findings
            self.found[key] = finding
            if len(self.outcome.findings) < MOST_FINDINGS:
                self.outcome.findings.append(finding)
            else:
                self.outcome.overflow.append(FindingKey(*key))
        else:
            known.count += finding.count

    def unwritten(self, size: int) -> bytearray | None:
        """Return the marks of a range of uninitialized memory, if uninitialized reads are checked."""
        return bytearray(size) if self.initialised else None

    def operation_name(self, pc: int) -> str:
        """Return the name of the operation at pc."""
        return NAMES[self.code[pc][0]]

    def step(self, pc: int, lanes: int) -> None:
        """Count one warp instruction."""
        outcome = self.outcome
        if isinstance(self.watch, SameValueWatch):
            self.watch.settle()
        if outcome.warp_instructions >= self.budget:
            raise BudgetError
        outcome.warp_instructions += 1
        outcome.thread_operations += lanes.bit_count()
        outcome.executions[pc] += 1

    def special(self, name: str, cta: int, thread: int) -> int:
        """Return the value of a special register in one thread."""
        kind, _, axis = name.partition(".")
        if kind in ("tid", "ctaid"):
            return place(*((thread, self.block) if kind == "tid" else (cta, self.grid)))["xyz".index(axis)]
        if axis:
            groups = self.grouping
            extents = {
                "ntid": self.block, "nctaid": self.grid, "cluster_nctaid": groups.shape, "nclusterid": groups.along,
                "clusterid": place(groups.of(cta)[0], groups.along),
                "cluster_ctaid": place(groups.of(cta)[1], groups.shape),
            }  # fmt: skip
            return extents[kind]["xyz".index(axis)]
        return {
            "laneid": thread % LANES,
            "cluster_ctarank": self.grouping.of(cta)[1],
            "cluster_nctarank": self.grouping.members,
            "window": self.window,
            "shared": self.shared_address(cta),
            "dynamic": self.shared_address(cta) + self.dynamic_offset,
            "dynamic_bytes": self.dynamic_shared,
            "local": (LOCAL << SEGMENT_SHIFT) + thread % LANES * self.program.local_bytes,
        }[name]

    def shared_address(self, cta: int) -> int:
        """Return the address of a CTA's shared memory."""
        return (SHARED << SEGMENT_SHIFT) + (self.grouping.of(cta)[1] << self.window)


def _initialized_marks(data: Bytes, writable: object) -> bytearray:
    """Return the marks of the initialized bytes of an array that is partly uninitialized when a launch begins."""
    known = writable.written if isinstance(writable, Allocated) else None
    return bytearray(len(data)) if known is None else bytearray(known.tobytes())


def _is_allocated(writable: object) -> bool:
    return isinstance(writable, Allocated)


def encode_register(type_: str, value: int | float | bool) -> int:
    """Return a value as the bit pattern of a register."""
    return from_float(float(value), type_) if type_[0] == "f" else to_unsigned(int(value), 8 * SIZE[type_])


class CtaGroup:
    """CTAs that are alive at once, by rank, with their shared memories in one segment at a fixed distance."""

    def __init__(self, launch: Launch, number: int) -> None:
        self.launch = launch
        self.number = number
        members = launch.grouping.members
        size = ((members - 1) << launch.window if members > 1 else 0) + launch.shared_bytes
        launch.watch.start_group()
        self.shared = Segment(bytearray(size), written=launch.unwritten(size))
        if isinstance(launch.watch, SameValueWatch):
            launch.watch.shared = self.shared
        if self.shared.written is not None:
            low, high = launch.program.given_shared
            for member in range(members):
                first = member << launch.window if members > 1 else 0
                self.shared.written[first + low : first + high] = b"\1" * (high - low)
        self.mbarriers = Mbarriers(self)
        launch.outcome.mbarriers = self.mbarriers.initialized
        self.barrier = ClusterBarrier(self)
        self.grid = GridBarrier(self)
        self.cancellation = Cancellation(self)
        self.reached: dict[int, dict[tuple[bool, int], Mark]] = {}
        """CTA -> the last access of each other thread or agent to its shared memory"""
        self.requested: dict[int, dict[tuple[bool, int], Mark]] = {}
        """likewise, for the accesses of threads that a release publishes"""
        self.loose: dict[int, dict[tuple[bool, int], tuple[Mark, Mbarrier, int]]] = {}
        """likewise, for operations that release nothing, with their mbarrier and phase"""
        self.ctas = [Cta(self, launch.grouping.cta(number, member)) for member in range(members)]

    def actor(self, warp: int) -> tuple[int, int]:
        """Return the (CTA, warp in the CTA) of a warp, given its number in the group."""
        member, number = divmod(warp, -(-self.launch.threads // LANES))
        return self.ctas[member].number, number

    def run(self) -> Status:
        """Run each warp until it waits or ends, the lowest first, in rounds."""
        cta, repeats = self.ctas[0], Repeats(self)
        try:
            while any(cta.live_warps for cta in self.ctas):
                able = False
                for cta in self.ctas:
                    able |= cta.run_warps()
                if repeats.are_found():
                    self.launch.outcome.repeats = True
                    return next(c for c in self.ctas if c.live_warps).save_state("budget")
                if not able and not any(cta.goes_past_standing() for cta in self.ctas):
                    return self._first_waiting_cta().save_state("deadlock")
        except BudgetError:
            return cta.save_state("budget")
        except StopError as stop:
            self.launch.outcome.fault_pc, self.launch.outcome.fault_warp = stop.pc, stop.warp
            return cta.save_state(stop.status)
        for cta in self.ctas:
            cta.end()
        self.mbarriers.report_left()
        report_outliving(self)
        peers.report_late(self)
        self.launch.watch.end_group(self.number)
        return "done"

    def _first_waiting_cta(self) -> Cta:
        """Return the first waiting CTA: if possible, one that does not wait for the rest of its cluster or of the
        grid."""
        waiting = [cta for cta in self.ctas if cta.live_warps]
        alone = (cta for cta in waiting if not all(cta.meets(warp) for warp in cta.warps if warp.alive))
        return next((cta for cta in alone if not self.grid.stands(cta)), waiting[0])


class Cta:
    """One CTA: its warps, shared memory, barriers and mbarriers, register pool, and asynchronous operations."""

    def __init__(self, group: CtaGroup, number: int) -> None:
        self.group = group
        self.launch = launch = group.launch
        self.number = number
        self.shared, self.mbarriers = group.shared, group.mbarriers
        self.warps = [self._warp(w) for w in range(-(-launch.threads // LANES))]
        self.barriers = [Barrier(n) for n in range(BARRIERS)]
        self.registers = RegisterPool(len(self.warps), launch.program.registers)
        self.copies: defaultdict[tuple[int, int], Groups] = defaultdict(Groups)
        """(warp, lane) -> its `cp.async` operations"""
        self.bulk: defaultdict[tuple[int, int], Groups] = defaultdict(Groups)
        """(warp, lane) -> its bulk stores and reductions"""
        self.parts_of_groups: defaultdict[int, Part] = defaultdict(Part)
        """warp -> its part of the warpgroup's groups of `wgmma`"""
        self.grouped: defaultdict[int, list[int]] = defaultdict(list)
        """for each warp, its `wgmma` operations in the order of their execution"""
        self.multiplied: defaultdict[int, list[tuple[int, int, int, int]]] = defaultdict(list)
        """warp -> its executed `wgmma`: instruction, descriptors, whether the accumulator is an input"""
        self.registers_of_groups: defaultdict[int, GroupRegisters] = defaultdict(GroupRegisters)
        """warp -> the registers of its `wgmma`"""
        self.issued: list[Issued] = []
        self.objects = {kind: family.state(self) for kind, family in FAMILIES.items() if family.state}
        """kind -> state of the synchronization objects with this kind"""

    @property
    def order(self) -> ThreadOrder:
        """Return the clocks of all lanes, in a launch with asynchronous operations."""
        assert isinstance(self.launch.watch, ThreadWatch)
        return self.launch.watch.order

    def runner(self, warp: Warp) -> WarpRun:
        """Return the interpreter of a warp."""
        return WarpRun(self, warp)

    def _warp(self, number: int) -> Warp:
        launch = self.launch
        first = number * LANES
        alive = (1 << min(LANES, launch.threads - first)) - 1
        size = launch.program.local_bytes * LANES
        warp = Warp(number, alive, {}, {0: -1}, Segment(bytearray(size), written=launch.unwritten(size)))
        launch.watch.order.set_lanes((self.number, number), alive)
        for row, (type_, value) in launch.fixed.items():
            if type_ == "p":
                warp.predicates[row] = -1 if value else 0
            else:
                warp.registers[row] = [encode_register(type_, value)] * LANES
        for name, row in launch.program.specials.items():
            warp.registers[row] = [launch.special(name, self.number, first + lane) for lane in range(LANES)]
        if launch.undefined is not None:
            launch.undefined.start_warp(warp)
        warp.ready.append(Group(0, alive, None))
        return warp

    @property
    def live_warps(self) -> int:
        """Return the number of warps that have not exited."""
        return sum(1 for warp in self.warps if warp.alive)

    @property
    def live_objects(self) -> Mbarriers | None:
        """Return the synchronization objects in shared memory; None if none is live."""
        return self.mbarriers if self.mbarriers.live else None

    def finding(self, code: str, pc: int, warp: int, lanes: int, **detail: int) -> None:
        """Report a finding at one instruction."""
        self.launch.report(RawFinding(code, pc, self.number, warp, lanes, detail=detail))

    def run_warps(self) -> bool:
        """Run each warp that can run until it waits or ends; return whether there was one."""
        able = False
        for warp in self.warps:
            run = WarpRun(self, warp)
            if run.able():
                able = True
                run.run()
        return able

    def goes_past_standing(self) -> bool:
        """Let lanes continue past a join if nothing else can run, and return whether some do.

        Converged lanes wait there for each other.
        """
        if self.launch.watch.options.converged:
            return False
        return any(WarpRun(self, warp).goes_past_standing() for warp in self.warps)

    def meets(self, warp: Warp) -> bool:
        """Return whether some lanes of a warp wait at the cluster barrier."""
        return any(self.launch.operation_name(group.pc - 1) == cluster_barrier.WAIT for group in warp.parked)

    def end(self) -> None:
        """Check what remains when the CTA ends."""
        report_dangling(self)
        for family in FAMILIES.values():
            if family.end:
                family.end(self)

    def save_state(self, status: Status) -> Status:
        """Record the CTA's state in the outcome."""
        outcome = self.launch.outcome
        outcome.cta = self.number
        outcome.warps = [
            WarpState(
                w.number,
                w.wait_pc if w.waits >= 0 else w.ready[-1].pc if w.ready and status == "budget" else w.last_pc,
                w.alive,
                w.waits,
                tuple((g.pc - 1, g.lanes) for g in w.parked) if w.waits < 0 else (),
            )
            for w in self.warps
        ]
        outcome.barriers = [
            BarrierState(b.number, b.generation, b.arrived, b.expected, b.warps, b.previous)
            for b in self.barriers
            if b.arrived
        ]
        outcome.elsewhere = [
            (cta.number, w.number, w.parked[0].pc - 1 if w.waits < 0 and w.parked else w.wait_pc)
            for cta in self.group.ctas
            for w in cta.warps
            if cta is not self and w.alive
        ]
        outcome.phases = self.mbarriers.states()
        outcome.phase_waits = waiting(self)
        outcome.object_waits = [wait for family in FAMILIES.values() if family.waits for wait in family.waits(self)]
        return status
