"""The slow interpreter: one lane at a time, in plain Python, sharing no code with the VM.

It is the oracle for the VM and the debugging mode (`check(..., engine="reference")`).  A warp's lanes are kept in *groups*
that run one after another; where lanes part at a branch they belong to a *region*, which ends at the join, where they wait
for each other.  Barriers are in `reference_barriers.py`, arithmetic in `reference_operations.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from wsemu.bytecode import (
    ADDRESS_OUT,
    ADDRESS_WRAPPED,
    ATOMICS,
    FIRST_ARRAY,
    INDEX_BIAS,
    LANES,
    LOCAL,
    NAMES,
    OPERATIONS,
    ROW,
    SEGMENT_SHIFT,
    SHARED,
    SIZE,
    Program,
)
from wsemu.outcome import BarrierState, Outcome, RawFinding, Status, WarpState
from wsemu.reference_barriers import Barrier, Stop, count_warp, report_dangling, warp_exits
from wsemu.reference_operations import atomics, from_float, semantics, unsigned

Rows = dict[int, tuple[str, int | float | bool]]
"""register row -> (type, value): what a launch puts into parameter rows"""
Bytes = npt.NDArray[np.uint8]


def lanes_of(mask: int) -> Iterator[int]:
    """The lanes of a mask, lowest first."""
    return (lane for lane in range(LANES) if mask >> lane & 1)


@dataclass(slots=True)
class Region:
    """Lanes that parted at a branch and meet at instruction `join`; `lanes` are all of them, `waiting` those there."""

    join: int
    lanes: int
    outer: Region | None
    waiting: int = 0


@dataclass(slots=True)
class Group:
    """Lanes that run together."""

    pc: int
    lanes: int
    region: Region | None


@dataclass(slots=True)
class Segment:
    """A stretch of memory; `written` has a nonzero byte for each byte that holds a value, None if all do."""

    data: bytearray | memoryview
    writable: bool = True
    written: bytearray | None = None


@dataclass(slots=True)
class Warp:
    """One warp.  `ready` groups run, the last one first; `parked` ones wait at a barrier."""

    number: int
    alive: int
    registers: dict[int, list[int]]
    predicates: dict[int, int]
    local: Segment
    ready: list[Group] = field(default_factory=list)
    parked: list[Group] = field(default_factory=list)
    waits: int = -1
    """the barrier it is counted at, or -1"""
    wait_pc: int = -1
    last_pc: int = -1


class Budget(Exception):
    """The step budget is used up."""


def run(
    program: Program,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    rows: Rows,
    segments: Sequence[tuple[Bytes, bool]],
    *,
    dynamic_shared: int = 0,
    budget: int = 1_000_000_000,
) -> Outcome:
    """Run a launch, CTA after CTA; arrays in `segments` (bytes, writable?) are changed in place.

    `rows` are the parameter rows, `dynamic_shared` the bytes of dynamic shared memory, `budget` the warp instructions
    after which the run ends.
    """
    launch = Launch(program, grid, block, rows, segments, dynamic_shared, budget)
    for cta in range(grid[0] * grid[1] * grid[2]):
        status = Cta(launch, cta).run()
        if status != "done":
            launch.outcome.status = status
            break
    return launch.outcome


class Launch:
    """What all CTAs share: code, arrays, findings, counters."""

    def __init__(
        self,
        program: Program,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        rows: Rows,
        segments: Sequence[tuple[Bytes, bool]],
        dynamic_shared: int,
        budget: int,
    ) -> None:
        self.program = program
        self.grid, self.block = grid, block
        self.threads = block[0] * block[1] * block[2]
        self.code: list[list[int]] = program.code.tolist()
        self.dynamic_shared = dynamic_shared
        self.dynamic_offset = -(-program.shared_bytes // 16) * 16
        self.budget = budget
        self.arrays = [Segment(memoryview(data).cast("B"), writable) for data, writable in segments]
        self.fixed: Rows = {row: (type_, value) for row, type_, value in program.constants}
        self.fixed.update(rows)
        self.outcome = Outcome("done", executions=[0] * len(self.code))
        self._findings: dict[tuple[str, int, int], RawFinding] = {}

    def report(self, finding: RawFinding) -> None:
        """Enter a finding, or count it when its code was already seen at these places."""
        key = (finding.code, finding.pc, finding.other_pc)
        known = self._findings.get(key)
        if known is None:
            self._findings[key] = finding
            self.outcome.findings.append(finding)
        else:
            known.count += finding.count

    def name_of(self, pc: int) -> str:
        """Operation of the instruction at pc."""
        return NAMES[self.code[pc][0]]

    def step(self, pc: int, lanes: int) -> None:
        """Count one warp instruction."""
        outcome = self.outcome
        if outcome.warp_instructions == self.budget:
            raise Budget
        outcome.warp_instructions += 1
        outcome.thread_operations += lanes.bit_count()
        outcome.executions[pc] += 1

    def special(self, name: str, cta: int, thread: int) -> int:
        """Value of a special register in one thread."""
        kind, _, axis = name.partition(".")
        if axis:
            extent, at = {"tid": (self.block, thread), "ctaid": (self.grid, cta)}.get(kind, ((0, 0, 0), 0))
            if kind in ("ntid", "nctaid"):
                return (self.block if kind == "ntid" else self.grid)["xyz".index(axis)]
            x, y, _ = extent
            return {"x": at % x, "y": at // x % y, "z": at // (x * y)}[axis]
        return {
            "laneid": thread % LANES,
            "shared": SHARED << SEGMENT_SHIFT,
            "dynamic": (SHARED << SEGMENT_SHIFT) + self.dynamic_offset,
            "dynamic_bytes": self.dynamic_shared,
            "local": (LOCAL << SEGMENT_SHIFT) + thread % LANES * self.program.local_bytes,
        }[name]


def encoded(type_: str, value: int | float | bool) -> int:
    """A value as the bit pattern of a register."""
    return from_float(float(value), type_) if type_[0] == "f" else unsigned(int(value), 8 * SIZE[type_])


class Cta:
    """One CTA: its warps, shared memory and named barriers."""

    def __init__(self, launch: Launch, number: int) -> None:
        self.launch = launch
        self.number = number
        size = launch.dynamic_offset + launch.dynamic_shared
        self.shared = Segment(bytearray(size), written=bytearray(size))
        self.warps = [self._warp(w) for w in range(-(-launch.threads // LANES))]
        self.barriers = [Barrier(n) for n in range(16)]

    def _warp(self, number: int) -> Warp:
        launch = self.launch
        first = number * LANES
        alive = (1 << min(LANES, launch.threads - first)) - 1
        size = launch.program.local_bytes * LANES
        warp = Warp(number, alive, {}, {0: -1}, Segment(bytearray(size), written=bytearray(size)))
        for row, (type_, value) in launch.fixed.items():
            if type_ == "p":
                warp.predicates[row] = -1 if value else 0
            else:
                warp.registers[row] = [encoded(type_, value)] * LANES
        for name, row in launch.program.specials.items():
            warp.registers[row] = [launch.special(name, self.number, first + lane) for lane in range(LANES)]
        warp.ready.append(Group(0, alive, None))
        return warp

    @property
    def live_warps(self) -> int:
        """Warps that have not exited."""
        return sum(1 for warp in self.warps if warp.alive)

    def finding(self, code: str, pc: int, warp: int, lanes: int, **detail: int) -> None:
        """Report something that one instruction did."""
        self.launch.report(RawFinding(code, pc, self.number, warp, lanes, detail=detail))

    def run(self) -> Status:
        """Each warp runs until it waits or ends, the lowest first, over and over."""
        try:
            while any(warp.alive for warp in self.warps):
                able = False
                for warp in self.warps:
                    if warp.ready and warp.waits < 0:
                        able = True
                        WarpRun(self, warp).run()
                if not able:
                    return self._stopped("deadlock")
        except Budget:
            return self._stopped("budget")
        except Stop as stop:
            self.launch.outcome.fault_pc, self.launch.outcome.fault_warp = stop.pc, stop.warp
            return self._stopped(stop.status)
        report_dangling(self)
        return "done"

    def _stopped(self, status: Status) -> Status:
        """Leave the CTA's state in the outcome."""
        outcome = self.launch.outcome
        outcome.cta = self.number
        outcome.warps = [
            WarpState(w.number, w.wait_pc if w.waits >= 0 else w.last_pc, w.alive, w.waits) for w in self.warps
        ]
        outcome.barriers = [
            BarrierState(b.number, b.generation, b.arrived, b.expected, sorted({p.warp for p in b.participants}))
            for b in self.barriers
            if b.arrived
        ]
        return status


class WarpRun:
    """Runs one warp until it waits or ends."""

    def __init__(self, cta: Cta, warp: Warp) -> None:
        self.cta = cta
        self.warp = warp
        self.launch = cta.launch
        self.group = warp.ready[-1]

    def run(self) -> None:
        warp = self.warp
        while warp.ready and warp.waits < 0:
            self.group = group = warp.ready[-1]
            fields = self.launch.code[group.pc]
            name = NAMES[fields[0]]
            warp.last_pc = group.pc
            self.launch.step(group.pc, group.lanes)
            operation = OPERATIONS[name]
            lanes = group.lanes
            if fields[1]:
                holds = warp.predicates.get(fields[1] >> 1, 0)
                lanes &= ~holds if fields[1] & 1 else holds
            if operation.kind == "control":
                getattr(self, f"_{name}")(fields, lanes)
            elif operation.kind == "barrier":
                self._barrier(name, fields, lanes)
            else:
                if lanes:
                    _EXECUTE[operation.kind](self, name, fields, lanes)
                group.pc += 1

    # -- registers -----------------------------------------------------------------------------------------------------------
    def read(self, row: int, type_: str, lane: int) -> int:
        """One lane of a register or predicate; a register that nobody wrote holds 0."""
        if type_ == "p":
            return bool(self.warp.predicates.get(row, 0) >> lane & 1)
        values = self.warp.registers.get(row)
        return values[lane] if values else 0

    def write(self, row: int, type_: str, lane: int, value: int) -> None:
        if type_ == "p":
            bit = 1 << lane
            old = self.warp.predicates.get(row, 0)
            self.warp.predicates[row] = old | bit if value else old & ~bit
        else:
            self.warp.registers.setdefault(row, [0] * LANES)[lane] = value

    # -- control ---------------------------------------------------------------------------------------------------------------
    def _bra(self, fields: list[int], taken: int) -> None:
        group = self.group
        target, join = fields[6], fields[5]
        onward = group.lanes & ~taken
        if not taken:
            group.pc += 1
        elif not onward:
            group.pc = target
        else:
            self.warp.ready.pop()
            if join >= 0 and (group.region is None or group.region.join != join):
                group.region = Region(join, group.lanes, group.region)
            for pc, lanes in ((target, taken), (group.pc + 1, onward)):  # the last one pushed runs first
                if pc == join and group.region is not None:
                    group.region.waiting |= lanes
                else:
                    self.warp.ready.append(Group(pc, lanes, group.region))

    def _jump(self, fields: list[int], lanes: int) -> None:
        self.group.pc = fields[6]

    def _join(self, fields: list[int], lanes: int) -> None:
        region = self.group.region
        if region is None or region.join != self.group.pc:
            self.group.pc += 1
            return
        self.warp.ready.pop()
        region.waiting |= lanes
        self._close(region)

    def _close(self, region: Region | None) -> None:
        """Go on behind the join when nobody is missing; a region whose lanes have all exited is over as well."""
        warp = self.warp
        while region is not None and region.waiting & warp.alive == region.lanes & warp.alive:
            if region.waiting & warp.alive:
                warp.ready.append(Group(region.join + 1, region.waiting & warp.alive, region.outer))
                return
            region = region.outer

    def _exit(self, fields: list[int], lanes: int) -> None:
        warp, group = self.warp, self.group
        warp.alive &= ~lanes
        group.lanes &= ~lanes
        group.pc += 1
        if not group.lanes:
            warp.ready.pop()
            self._close(group.region)
        if not warp.alive:
            warp_exits(self.cta, warp, warp.last_pc)
        elif not warp.ready:
            self._gathered()

    def _trap(self, fields: list[int], lanes: int) -> None:
        raise Stop("trap", self.group.pc, self.warp.number)

    # -- barriers --------------------------------------------------------------------------------------------------------------
    def _barrier(self, name: str, fields: list[int], lanes: int) -> None:
        """Lanes at a barrier: aligned forms count the warp at once, the others wait for the warp's other live lanes."""
        group, warp = self.group, self.warp
        pc = group.pc
        group.pc += 1
        if not lanes:
            return
        if lanes != group.lanes:  # a guarded barrier: the other lanes go on
            warp.ready.insert(-1, Group(group.pc, group.lanes & ~lanes, group.region))
            group.lanes = lanes
        warp.ready.pop()
        warp.parked.append(group)
        if fields[7] or lanes == warp.alive:
            if len(warp.parked) > 1:  # B12: the warp already stands at another barrier
                self._diverged(pc, lanes, fatal=True)
            if lanes != warp.alive:
                self._diverged(pc, lanes, fatal=False)
            count_warp(self, name, fields, pc, lanes)
        elif not warp.ready:
            self._gathered()

    def _diverged(self, pc: int, lanes: int, fatal: bool) -> None:
        warp = self.warp
        number = self.read(self.launch.code[pc][3], "b32", next(lanes_of(lanes)))
        other = warp.parked[0].pc - 1 if fatal else -1
        self.launch.report(
            RawFinding(
                "barrier-divergence", pc, self.cta.number, warp.number, lanes, other, warp.number if fatal else -1,
                {"barrier": number, "alive": warp.alive, "members": 0},
            )
        )  # fmt: skip
        if fatal:
            raise Stop("fault", pc, warp.number)

    def _gathered(self) -> None:
        """No lanes can run: those parked at an unaligned barrier are counted if they are all there are."""
        warp = self.warp
        if not warp.parked or warp.waits >= 0:
            return
        parked = 0
        for group in warp.parked:
            parked |= group.lanes
        last = warp.parked[-1]
        pc = last.pc - 1
        if parked != warp.alive:  # the others wait at a join for these
            raise Stop("parking", pc, warp.number)
        fields = self.launch.code[pc]
        count_warp(self, NAMES[fields[0]], fields, pc, last.lanes)

    # -- memory ----------------------------------------------------------------------------------------------------------------
    def segment(self, number: int) -> Segment | None:
        """The segment of that number, or None."""
        if number == SHARED:
            return self.cta.shared
        if number == LOCAL:
            return self.warp.local
        arrays = self.launch.arrays
        return arrays[number - FIRST_ARRAY] if FIRST_ARRAY <= number < FIRST_ARRAY + len(arrays) else None

    def locate(self, address: int, lane: int, size: int, writes: bool) -> tuple[Segment, int, int] | None:
        """(segment, its number, offset) of one lane's access, or None after reporting why it cannot be made."""
        if ADDRESS_OUT <= address < 1 << 63:
            index = (address >> SEGMENT_SHIFT & (2 * INDEX_BIAS - 1)) - INDEX_BIAS
            self._outside(lane, size, index=index)
            return None
        if address >> 63:
            self._outside(lane, size, address=address - (1 << 64))
            return None
        wrapped = bool(address & ADDRESS_WRAPPED)
        address &= ~ADDRESS_WRAPPED
        number, offset = address >> SEGMENT_SHIFT, address & ((1 << SEGMENT_SHIFT) - 1)
        segment = self.segment(number)
        if segment is None:
            self._outside(lane, size, address=address, segment=number)
            return None
        known = {"address": address, "segment": number, "bytes": len(segment.data)}
        if offset + size > len(segment.data):
            self._outside(lane, size, **known)
            return None
        if offset % size:
            self.cta.finding(
                "misaligned", self.group.pc, self.warp.number, 1 << lane,
                address=address, alignment=size, size=size, segment=number,
            )  # fmt: skip
            return None
        if writes and not segment.writable:
            self._outside(lane, size, readonly=1, **known)
            return None
        if wrapped:
            self._outside(lane, size, wrapped=1, **known)
        return segment, number, offset

    def _outside(self, lane: int, size: int, **detail: int) -> None:
        full = {"size": size, "segment": 0, "bytes": 0, "wrapped": 0, "readonly": 0, **detail}
        self.cta.finding("out-of-bounds", self.group.pc, self.warp.number, 1 << lane, **full)

    def _check_written(self, places: dict[int, tuple[Segment, int, int]], size: int) -> None:
        """Report the lanes that read a byte which nobody wrote."""
        bad = {
            lane: (number << SEGMENT_SHIFT) + offset
            for lane, (segment, number, offset) in places.items()
            if segment.written is not None and 0 in segment.written[offset : offset + size]
        }
        if bad:
            first = min(bad)
            self.cta.finding(
                "uninitialized-read", self.group.pc, self.warp.number, sum(1 << lane for lane in bad),
                address=bad[first], size=size, segment=bad[first] >> SEGMENT_SHIFT,
            )  # fmt: skip

    def _places(self, fields: list[int], lanes: int, size: int, writes: bool) -> dict[int, tuple[Segment, int, int]]:
        """Lane -> where it reads or writes, for the lanes whose access can be made."""
        places = {}
        for lane in lanes_of(lanes):
            place = self.locate(unsigned(self.read(fields[3], "b64", lane) + fields[6], 64), lane, size, writes)
            if place is not None:
                places[lane] = place
        return places

    def _load(self, name: str, fields: list[int], lanes: int) -> None:
        element, count = _shape(name)
        places = self._places(fields, lanes, element * count, False)
        self._check_written(places, element * count)
        for lane in lanes_of(lanes):
            for k in range(count):
                value = 0
                if lane in places:
                    segment, _, offset = places[lane]
                    at = offset + k * element
                    value = int.from_bytes(segment.data[at : at + element], "little")
                self.write(fields[2] + k * ROW, "b", lane, value)

    def _store(self, name: str, fields: list[int], lanes: int) -> None:
        element, count = _shape(name)
        for lane, (segment, _, offset) in self._places(fields, lanes, element * count, True).items():
            for k in range(count):
                value = self.read(fields[2] + k * ROW, "b", lane)
                _put(segment, offset + k * element, value, element)

    def _atomic(self, name: str, fields: list[int], lanes: int) -> None:
        type_ = ATOMICS[name][1]
        size = SIZE[type_]
        places = self._places(fields, lanes, size, True)
        self._check_written(places, size)
        for lane, (segment, _, offset) in places.items():
            old = int.from_bytes(segment.data[offset : offset + size], "little")
            new = atomics[name](old, self.read(fields[4], type_, lane), self.read(fields[5], type_, lane))
            _put(segment, offset, new, size)
            self.write(fields[2], type_, lane, old)

    # -- the rest --------------------------------------------------------------------------------------------------------------
    def _alu(self, name: str, fields: list[int], lanes: int) -> None:
        operation = OPERATIONS[name]
        meaning = semantics[name]
        sources = list(zip(fields[3:7], operation.operands, strict=False))
        for lane in lanes_of(lanes):
            self.write(fields[2], operation.result, lane, meaning(*(self.read(row, t, lane) for row, t in sources)))

    def _warp(self, name: str, fields: list[int], lanes: int) -> None:
        if name == "activemask":
            for lane in lanes_of(lanes):
                self.write(fields[2], "b32", lane, lanes)
            return
        members = self.read(fields[5], "b32", next(lanes_of(lanes)))
        if members & self.warp.alive != lanes:
            self.cta.finding(
                "barrier-divergence", self.group.pc, self.warp.number, lanes,
                barrier=-1, alive=self.warp.alive, members=members,
            )  # fmt: skip
        there = lanes & members
        if there and name != "syncwarp":
            what, mode = name.split(".")[:2]
            _EXCHANGE[what](self, mode, name.rpartition(".")[2], fields, lanes, there, members)

    def _shuffle(self, mode: str, type_: str, fields: list[int], lanes: int, there: int, members: int) -> None:
        values = [self.read(fields[3], type_, lane) for lane in range(LANES)]
        for lane in lanes_of(lanes):
            clamp, segment = fields[6] & 31, fields[6] >> 8 & 31
            source, inside = shuffle_source(mode, lane, self.read(fields[4], "b32", lane) & 31, clamp, segment)
            if not there >> source & 1:
                source = lane
            self.write(fields[2], type_, lane, values[source])
            if fields[7]:
                self.write(fields[7], "p", lane, inside)

    def _match(self, mode: str, type_: str, fields: list[int], lanes: int, there: int, members: int) -> None:
        values = {lane: self.read(fields[3], type_, lane) for lane in lanes_of(there)}
        equal = len(set(values.values())) == 1
        for lane in lanes_of(lanes):
            own = self.read(fields[3], type_, lane)
            if mode == "any":
                self.write(fields[2], "b32", lane, sum(1 << k for k, value in values.items() if value == own))
            else:
                self.write(fields[2], "b32", lane, members if equal else 0)
                if fields[7]:
                    self.write(fields[7], "p", lane, equal)

    def _vote(self, mode: str, type_: str, fields: list[int], lanes: int, there: int, members: int) -> None:
        votes = self.warp.predicates.get(fields[3], 0) & there
        answers = {"all": votes == there, "any": votes != 0, "uni": votes in (0, there), "ballot": votes}
        for lane in lanes_of(lanes):
            self.write(fields[2], "b32" if mode == "ballot" else "p", lane, answers[mode])

    def _fence(self, name: str, fields: list[int], lanes: int) -> None:
        """Orders memory for the checkers; the reference has one order anyway."""


def shuffle_source(mode: str, lane: int, b: int, clamp: int, segment: int) -> tuple[int, bool]:
    """PTX ISA, "shfl.sync": (lane to read, whether the selected one was in range)."""
    first = lane & segment
    last = first | clamp & ~segment
    selected = {"up": lane - b, "down": lane + b, "bfly": lane ^ b, "idx": first | b & ~segment}[mode]
    inside = selected >= last if mode == "up" else selected <= last
    return (selected if inside else lane), inside


def _shape(name: str) -> tuple[int, int]:
    """(bytes of an element, number of elements) of a load or store."""
    _, *vector, type_ = name.split(".")
    return SIZE[type_], int(vector[0][1:]) if vector else 1


def _put(segment: Segment, offset: int, value: int, size: int) -> None:
    segment.data[offset : offset + size] = value.to_bytes(size, "little")
    if segment.written is not None:
        segment.written[offset : offset + size] = b"\1" * size


_EXECUTE: dict[str, Callable[[WarpRun, str, list[int], int], None]] = {
    "alu": WarpRun._alu,
    "load": WarpRun._load,
    "store": WarpRun._store,
    "atomic": WarpRun._atomic,
    "warp": WarpRun._warp,
    "fence": WarpRun._fence,
}
_EXCHANGE: dict[str, Callable[[WarpRun, str, str, list[int], int, int, int], None]] = {
    "shfl": WarpRun._shuffle,
    "match": WarpRun._match,
    "vote": WarpRun._vote,
}
