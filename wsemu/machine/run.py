"""Runs a program on the VM: lays out registers and memory, calls the compiled code, collects what it left behind."""

from __future__ import annotations

import functools
import itertools
import math
import mmap
import os
import sys
import threading
from collections import deque
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from wsemu.machine import build as native
from wsemu.machine import state as layout
from wsemu.machine.matrix.shapes import BUFFER, shapes
from wsemu.machine.memory.cell_bits import INTERVALS, MAX_INSTRUCTIONS, UNNAMED, WIDTHS
from wsemu.machine.memory.joined import EVEN, ODD
from wsemu.machine.memory.read_only_claims import Claims, written_bytes
from wsemu.machine.memory.shadow_planes import POOL, ROOM, WINDOWS_FROM, Planes, collide, joined, overlapping
from wsemu.machine.outside import Objects
from wsemu.machine.parts import needed
from wsemu.machine.state import (
    BAD_INDEX,
    ELSEWHERE,
    GAP,
    PC_BITS,
    READ_ONLY,
    UNUSED_SHIFT,
    WRAPPED,
    address_of,
    aligned,
)
from wsemu.machine.tier import hot
from wsemu.model.arch import ARCHS, DEFAULT
from wsemu.model.bound import InElements
from wsemu.model.codes import CODE_NAMES
from wsemu.model.control_flow import CTA_COST, flow_lengths
from wsemu.model.data import dataclass, replace
from wsemu.model.effects import ASYNCHRONOUS_PROXY, COMBINES, find_opcodes
from wsemu.model.errors import UnsupportedError, UsageError
from wsemu.model.grid import Grouping, window
from wsemu.model.isa import (
    ADDRESS_WRAPPED,
    ANYWHERE,
    BULK_REDUCTIONS,
    FIRST_ARRAY,
    FIRST_GROUP_OPERATION,
    FIRST_MATRIX,
    FORBIDS_SHIFT,
    IN_ARRAY,
    IN_CONSTANT,
    IN_LOCAL,
    IN_SHARED,
    LANES,
    LOCAL,
    N_MEMORY,
    N_OPERATIONS,
    N_WARP,
    NAMES,
    OPCODE,
    OPERATIONS,
    ROW,
    SEGMENT_SHIFT,
    SHARED,
    SIZE,
    UNWATCHED,
    WAITS,
    access_numbers,
    access_shape,
    memory_shape,
)
from wsemu.model.outcome import (
    MOST_FINDINGS,
    WARPGROUP,
    AccessCount,
    BarrierState,
    Event,
    FindingKey,
    ObjectWait,
    Outcome,
    Pattern,
    PhaseState,
    PhaseWait,
    RawFinding,
    Status,
    Trace,
    WarpState,
)
from wsemu.model.program import Program
from wsemu.model.read_only import loads_read_only
from wsemu.model.sums import rounds_once

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy.typing as npt

    from wsemu.machine.memory.shadow_planes import Suspects
    from wsemu.machine.tier.hot import Placed, Tier, Wanted
    from wsemu.machine.tier.section_tables import Sections
    from wsemu.model.grid import Extent
    from wsemu.model.outcome import EventKind

    Bytes = npt.NDArray[np.uint8]

Rows = dict[int, tuple[str, int | float | bool]]
"""register row -> (type, value): what a launch puts into parameter rows"""
SLICES = (20_000_000, 4_000_000, 1_000_000)
"""warp instructions between two looks at the outside world (about a tenth of a second), by width: as many intervals may
begin meanwhile"""
SLICE = SLICES[0]
FIRST_SLICE = 1_000_000
"""the same as long as a program may get a block, see tier/hot.py"""
PATIENCE = 1_000_000
"""the same for starting CTAs, see `scheduler.start_cta`"""
MOST_CTAS = 1 << 27
"""that a launch may start: 8 bytes each"""
SLOTS = 1 << 15
"""of the hash table of findings: half of them are told apart"""
MAX_EVENTS = 1_000_000
"""of a trace"""
_T = TypeVar("_T")
REMEMBERED = 1 << 18
"""bytes of a machine's tables up to which it is kept for the next launch of its kind"""
_PARTLY_USED = frozenset({"raw", "slots", "known", "bases", "plans", "plans_due", "stacks", "lane_clocks", "leaders"})
"""tables of a machine that are as good as new: a run says what it has touched, plans stay good, and a warp that begins
has an empty stack and no clocks of lanes"""
_OF_GROUPS = frozenset({
    "shared", "warps", "barriers", "ctas", "clocks", "warp_clocks", "mbarriers", "mbarrier_index", "agents", "groups",
    "phases", "acquired",
})  # fmt: skip
"""tables of a machine with asynchronous operations that the first group of a launch finds as the last one of the launch
before has left them, as each group does of those before it"""
_COUNTED_ON = ("top", "operations", "mbarrier_count")
"""what such a machine counts on from launch to launch: what tables still hold came before"""
MOST_OPERATIONS = 1 << 30
"""that it counts: they are told apart in 32 bits"""
LASTING = 1 << 24
"""bytes of its tables up to which it is kept"""
PARALLEL_THREADS = 1 << 16
"""threads of a launch from which its CTAs are spread over the cores"""
STATUS: dict[int, Status] = {
    layout.DONE: "done",
    layout.DEADLOCK: "deadlock",
    layout.BUDGET: "budget",
    layout.FAULT: "fault",
    layout.TRAP: "trap",
    layout.STACK_OVERFLOW: "stack",
}
_DTYPE = {"b8": "u1", "b16": "u2", "b32": "u4", "b64": "u8", "f16": "f2", "f32": "f4", "f64": "f8"}


def _auxiliary() -> npt.NDArray[np.int64]:
    """opcode -> aux of a memory operation (bytes a lane, elements << 8, log2 of the bytes << 16; what begins at
    `UNUSED_SHIFT` belongs to one instruction), -1 for others."""
    table = np.full(N_OPERATIONS, -1, np.int64)
    for name, operation in OPERATIONS.items():
        if operation.kind in ("load", "store", "atomic"):
            n = memory_shape(name)[2] if operation.kind != "atomic" else 1
            size = access_shape(name)[1]
            table[OPCODE[name]] = size | n << 8 | (size.bit_length() - 1) << 16
    return table


_AUXILIARY = _auxiliary()
_REDUCTION_WIDTHS = np.array([2 * int(type_.lstrip("busf")) for _, type_ in BULK_REDUCTIONS])
"""bytes of an element, 16 times: no other atomic is as wide, and any two differ in a bit"""
MAP_ACQUIRE, MAP_RELEASE = OPCODE["map.acquire"], OPCODE["map.release"]
_TILES = find_opcodes(lambda row: row.moves.unit == "tile")
_REDUCTIONS = COMBINES - _TILES
_OF_WARPGROUPS = frozenset(range(FIRST_GROUP_OPERATION, N_OPERATIONS))
_needed = functools.lru_cache(maxsize=256)(needed)
_grouping = functools.lru_cache(maxsize=256)(Grouping)
ATOMIC_NUMBERS = [OPCODE[name] for name, operation in OPERATIONS.items() if operation.kind == "atomic"]
_CONTENDED = COMBINES.union(ATOMIC_NUMBERS)
"""operations with which CTAs may change one place"""


@dataclass(frozen=True, slots=True)
class Image:
    """What depends on the program alone: its code as the VM reads it, segment lengths, a warp's register block."""

    code: npt.NDArray[np.int64]
    flow: npt.NDArray[Any]
    accesses: npt.NDArray[Any]
    registers: Bytes
    has_atomics: bool
    has_read_only_loads: bool
    opcodes: frozenset[int]
    asynchronous: bool
    multiplies: bool
    """it has matrix operations"""
    sums: bool
    """whose sums are rounded once"""
    access_bytes: int
    """of a lane, the same in all accesses; 0: they differ, or there are none"""


def bits(type_: str, value: int | float | bool) -> np.generic:
    """A value as an element of a register row of this type; integers wrap."""
    if type_[0] == "b":
        value = int(value) & ((1 << 8 * SIZE[type_]) - 1)
    result: np.generic = np.dtype(_DTYPE[type_]).type(value)
    return result


def fill(block: Bytes, row: int, type_: str, value: int | float | bool) -> None:
    """Put one value into all lanes of a row, in a block of one warp or of several (last axis: bytes)."""
    if type_ == "p":
        block[..., row : row + 4] = 255 if value else 0
        return
    block[..., row : row + LANES * SIZE[type_]].view(_DTYPE[type_])[...] = bits(type_, value)


def _local_variables(program: Program) -> npt.NDArray[Any]:
    """Return the extents of a thread's local memory and of each variable in it."""
    found = layout.table(1 + len(program.locals), layout.VARIABLE)
    found[0] = 0, program.local_bytes, 1
    for number, array in enumerate(program.locals, 1):
        found[number] = array.offset, math.prod(array.shape) * array.dtype.itemsize, array.writable
    return found


@functools.lru_cache(maxsize=512)
def _image_of(key: ProgramKey) -> Image:
    program = key.program
    code = np.ascontiguousarray(program.code, np.int64).copy()
    auxiliary = _AUXILIARY[np.minimum(code[:, 0], N_OPERATIONS - 1)]
    code[:, 7] = np.where(auxiliary >= 0, auxiliary | code[:, 7] << UNUSED_SHIFT, code[:, 7])
    opcodes = program.opcodes
    for reduce in opcodes & _REDUCTIONS:
        rows = code[:, 0] == reduce
        code[rows, 7] = code[rows, 7] << UNUSED_SHIFT | _REDUCTION_WIDTHS[code[rows, 7]]
    for tiles in opcodes & _TILES:
        code[code[:, 0] == tiles, 7] <<= UNUSED_SHIFT
    _name_barriers(program, code)
    n = len(code)
    flow = np.zeros(n + 1, layout.FLOW)
    flow["length"][:n] = flow_lengths(code)
    registers = aligned(program.register_bytes)
    registers[:4] = 255
    for row, type_, value in program.constants:
        fill(registers, row, type_, value)
    accesses = np.zeros(n + 1, layout.ACCESS)
    accesses["pattern"][:n] = access_numbers(code[:, 0].tolist())
    accesses["forbids"][:n] = np.where(auxiliary >= 0, program.code[:, 7] >> FORBIDS_SHIFT & ANYWHERE, 0)
    has_atomics = not opcodes.isdisjoint(_CONTENDED)
    asynchronous = program.asynchronous
    multiplies = any(
        FIRST_MATRIX <= opcode < N_WARP or FIRST_GROUP_OPERATION <= opcode < N_OPERATIONS for opcode in opcodes
    )
    read_only = loads_read_only(program)
    sums = multiplies and rounds_once(program)
    sizes = {size & 255 for size in auxiliary.tolist() if size >= 0}
    size = sizes.pop() if len(sizes) == 1 else 0
    return Image(code, flow, accesses, registers, has_atomics, read_only, opcodes, asynchronous, multiplies, sums, size)


def _name_barriers(program: Program, code: npt.NDArray[np.int64]) -> None:
    """Barrier operations whose operands are constants have them at hand, see `named_barrier.operands`."""
    numbers = {row: int(value) for row, type_, value in program.constants if type_ == "b32"}
    for at in np.flatnonzero((code[:, 0] >= OPCODE["bar.sync"]) & (code[:, 0] <= OPCODE["bar.red.or"])).tolist():
        number, count = numbers.get(int(code[at, 3]), -1), numbers.get(int(code[at, 4]), -1)
        if not code[at, 4]:
            count = 0
        if 0 <= number < layout.BARRIERS and 0 <= count < layout.MOST_COUNT and (count or not code[at, 4]):
            code[at, 6] = layout.KNOWN_OPERANDS | count << layout.COUNT_SHIFT | number


class ProgramKey:
    """A program by identity, for caches."""

    __slots__ = ("program",)

    def __init__(self, program: Program) -> None:
        self.program = program

    def __hash__(self) -> int:
        return id(self.program)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ProgramKey) and other.program is self.program


@functools.lru_cache(maxsize=256)
def special_values(
    memory: tuple[int, int, int], grid: Extent, shape: Extent, block: tuple[int, ...], window: int
) -> dict[str, Any]:
    """Name of a special register -> its value for each thread of a group (or one value for all); ctaid and clusterid
    are not among them.  `memory`: bytes of static and dynamic shared memory, and of local memory."""
    static, dynamic, local = memory
    groups = _grouping(grid, shape)
    threads = block[0] * block[1] * block[2]
    cta_threads = -(-threads // LANES) * LANES
    member, thread = np.divmod(np.arange(groups.members * cta_threads), cta_threads)
    shared = (SHARED << SEGMENT_SHIFT) + (member << window if groups.members > 1 else 0)
    values: dict[str, Any] = {
        "tid.x": thread % block[0],
        "tid.y": thread // block[0] % block[1],
        "tid.z": thread // (block[0] * block[1]),
        "laneid": thread % LANES,
        "shared": shared,
        "dynamic": shared + -(-static // 16) * 16,
        "dynamic_bytes": dynamic,
        "local": (LOCAL << SEGMENT_SHIFT) + thread % LANES * local,
        "local_map": thread // LANES * 2 * (-(-local * LANES // 8) * 8),
    }
    for axis, (blocks, extent) in enumerate(zip(groups.grid, block, strict=True)):
        values[f"nctaid.{'xyz'[axis]}"] = blocks
        values[f"ntid.{'xyz'[axis]}"] = extent
    return values | _of_clusters(groups, member, window)


def _of_clusters(groups: Grouping, member: npt.NDArray[np.int64], window: int) -> dict[str, Any]:
    """The same of those that tell of clusters; `member`: of each thread the rank of its CTA."""
    x, y, _ = groups.shape
    values: dict[str, Any] = {
        "cluster_ctarank": member,
        "cluster_nctarank": groups.members,
        "window": window or SEGMENT_SHIFT,
    }
    for axis, inside in enumerate((member % x, member // x % y, member // (x * y))):
        values[f"cluster_ctaid.{'xyz'[axis]}"] = inside
        values[f"cluster_nctaid.{'xyz'[axis]}"] = groups.shape[axis]
        values[f"nclusterid.{'xyz'[axis]}"] = groups.along[axis]
    return values


@dataclass(frozen=True, slots=True)
class Watch:
    """What is looked for while a launch runs."""

    races: bool = True
    recycling: bool = True
    initialised: bool = True
    lockstep: bool = False
    """the lanes of a warp run together, as before sm_70"""
    converged: bool = False
    """lanes of an operation at an mbarrier are taken together: each comes, in time, after all that any of them did"""
    alone: int = 0
    """of lanes that store the same bytes by one bulk operation, only this one does, counted from 1; 0: all do"""
    init_fences: bool = False
    """look for fences between initializations of mbarriers and the copies that credit them"""
    other_lanes: bool = False
    """findings of phases name the lane of the earlier operation"""
    strict: bool = False
    """note what is right, and looks like a mistake"""
    stored: frozenset[int] | None = None
    """numbers of the segments of arrays that are expected to be written; None: any.  Another one that is written makes
    the launch start anew, so that this says only where races are worth looking for"""
    uninitialized: frozenset[int] = frozenset()
    """numbers of the segments of arrays whose bytes count as not yet written"""
    read_only: bool = True
    """whether what is loaded through the read-only cache must not be written"""
    suspects: Suspects | None = None
    """where a run before this one found that lanes may conflict: there this one decides"""
    apart: bool = False
    """in that run, parts of warps met barriers"""
    named: bool = False
    """of each read it is remembered which instruction made it: see `memory/readers.py`"""
    windowed: bool = False
    """each CTA is expected to write the arrays behind where the ones before it did, see `shadow.note_range`"""
    ordered: frozenset[int] = frozenset()
    """instructions that wait for the host to let them be made: see `memory/ordered.py`"""
    joined: frozenset[int] = frozenset()
    """plain stores that conflict with everything but stores of the same value by each other: see `memory/joined.py`"""
    maps: tuple[tuple[int, int], ...] = ()
    """(array, segment): in the place of what the array holds, the launch reads which bytes of the segment are written,
    1 or 0 for each; those of local memory are at `special_values`' `local_map`.  CTAs must not meet"""


@dataclass(frozen=True, slots=True)
class Rooms:
    """How much of what asynchronous operations need there is room for."""

    agents: int = 1 << 14
    """in a CTA"""
    bits: int = 1
    """of 2,048 of them in flight"""
    mbarriers: int = 64
    """in a CTA"""
    maps: int = 64
    """that lanes have acquired"""

    def more(self, wanted: int, most: int) -> Rooms:
        """More of what was not enough, up to so many agents; UsageError where that is too much."""
        if wanted == layout.GROW_AGENTS:
            grown = replace(self, agents=4 * self.agents)
        elif wanted == layout.GROW_BITS:
            grown = replace(self, bits=4 * self.bits)
        elif wanted == layout.GROW_MAPS:
            grown = replace(self, maps=4 * self.maps)
        else:
            grown = replace(self, mbarriers=4 * self.mbarriers)
        if grown.mbarriers > 1 << 16:
            raise UsageError("a CTA makes too many mbarriers to be told apart")
        if grown.maps > 1 << 16:
            raise UsageError("too many threads acquire tensor maps to be told apart: let one of a CTA acquire each")
        if grown.agents > most or grown.bits > 1 << 8:
            raise UsageError(
                "a CTA has too many asynchronous operations that not all its threads wait for: launch less work a CTA"
            )
        return grown


def _pooled(n: int, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """A table of n zeroed records, in memory of an earlier launch if there is any: fresh memory takes longer than a
    small launch."""
    cells = n * dtype.itemsize // 8
    return POOL.take(cells)[:cells].view(dtype)


def _give_back(table: npt.NDArray[Any], used: int) -> None:
    """Leave a `_pooled` table to later launches; its first `used` records were touched at most."""
    cells = table.base
    assert isinstance(cells, np.ndarray)
    POOL.give(cells, 0, used * table.itemsize // 8)


class Machine:
    """One VM with its memory, for a range of CTAs."""

    def __init__(
        self,
        program: Program,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        rows: Rows,
        segments: list[tuple[Bytes, bool]],
        dynamic: int,
        watch: Watch | None = None,
        arch: str = DEFAULT,
        most: int | None = None,
        rooms: Rooms | None = None,
        shape: tuple[int, int, int] = (1, 1, 1),
        clusters: bool = False,
    ) -> None:
        """`most` CTAs are run at most; None: all.  Grouping of CTAs of this shape are alive at once; in `clusters` they
        access each other's shared memory."""
        self.rooms = rooms or Rooms()
        self.grouping = groups = _grouping(grid, shape)
        self.clusters = clusters
        self.tier: Tier = "off"
        self.executed = 0
        """warp instructions of its run so far, by slices"""
        self.work = self.worth = 0
        """the same of its launch"""
        self.permits: npt.NDArray[Any] | None = None
        """see tier/permits.py"""
        self.sections: Sections | None = None
        """see tier/sections.py"""
        self.ahead: npt.NDArray[np.int64] | None = None
        """where each warp's last loads were, see tier/accesses.py"""
        self.blocks: npt.NDArray[np.int64] | None = None
        """where its block may be entered, by instruction"""
        self.block: Placed | None = None
        """the block that it uses, if it uses one"""
        self.wanted: Wanted | None = None
        """that block, or the one that it waits for"""
        image = _image_of(ProgramKey(program))
        self.program = program
        self.image = image
        self.watch = watch = watch or Watch()
        self.threads = block
        """threads of a CTA along x, y and z"""
        threads = block[0] * block[1] * block[2]
        self.cta_warps = -(-threads // LANES)
        self.warp_count = count = groups.members * self.cta_warps
        self.width = width_of(groups, self.cta_warps)
        self.state = layout.table(1, layout.MACHINE)
        shared_bytes = -(-program.shared_bytes // 16) * 16 + dynamic
        self.window = 0 if groups.members == 1 else window(shared_bytes, asynchronous=program.asynchronous)
        self._lay_out_registers(rows, block, dynamic)
        local_bytes = program.local_bytes * LANES
        # one block for all small tables: arrays of two threads must not share cache lines
        self.flow = image.flow.copy()
        self.accesses = image.accesses.copy()
        accesses = int(self.accesses["pattern"].max()) + 1
        self.patterns = np.zeros(2 * accesses, layout.PATTERN)
        self.weighed = np.zeros(accesses, layout.WEIGHED)
        self.plans, self.plans_due = np.zeros(accesses, layout.PLAN), np.zeros(accesses, layout.PLAN_DUE)
        self.warps = layout.table(count, layout.WARP)
        self.barriers = layout.table(groups.members * layout.BARRIERS, layout.BARRIER)
        self.ctas = layout.table(groups.members, layout.CTA)
        self.raw = _pooled(MOST_FINDINGS, layout.RAW)
        self.slots = _pooled(SLOTS, layout.SLOT)
        self.stacks = np.zeros((count, 2, layout.STACK_ROOM), layout.ENTRY)
        self.scratch = np.zeros(layout.SCRATCH, np.int64)
        self.lanes_scratch = np.zeros(128, np.int64)
        before = (groups.members - 1) << self.window
        """bytes of shared memory before that of a group's last CTA"""
        shared_room, local_room = -(-shared_bytes // 8) * 8, -(-local_bytes // 8) * 8
        self.shared = aligned(2 * (before + shared_room))
        self.local = aligned(2 * local_room * count)
        self.variables = _local_variables(program)
        self.segments = layout.table(FIRST_ARRAY + len(segments), layout.SEGMENT)
        self._lay_out_segments(segments, before + shared_bytes, local_bytes)
        self._lay_out_warps(local_room, threads)
        self._lay_out_ctas()
        self._fill_state(threads, shared_room, local_room)
        self.state["shared_limit"], self.state["clusters"] = shared_bytes, clusters
        self._fill_costs(arch)
        self._lay_out_clocks(min(most or groups.number, groups.number))
        if image.asynchronous:
            self._lay_out_mbarriers()
        self.key: Any = None
        """under which it is kept for the next launch of its kind; None: it is not"""
        self.left = 0
        """of the budget of its last run"""
        self.status = layout.DONE
        """of its last run"""
        self.goes_on = False
        """its tables, and intervals, are those of the launch before, continued"""
        self.number = 0
        """which of the workers of its launches it was: it has touched what the next one of that number will"""
        self.alone: dict[int, int] = {}
        """of groups that were run each by itself, its base, in their order"""
        self._told: tuple[tuple[bytes, ...], Outcome] | None = None
        """what the tables held after its last launch in which nothing was found, and the outcome"""

    def _lay_out_segments(self, segments: list[tuple[Bytes, bool]], shared_bytes: int, local_bytes: int) -> None:
        watch, table = self.watch, self.segments
        self._keep = segments
        self.maps: list[Bytes] = []
        self.marks: dict[int, Bytes] = {}
        """of each array that may be written, what was done to its bytes; see `read_only.py`"""
        marks = watch.read_only and self.image.has_read_only_loads
        table["grain"], table["low"] = -1, 1 << 40
        table[SHARED]["host"], table[SHARED]["bytes"], table[SHARED]["writable"] = (
            address_of(self.shared), shared_bytes, 1,
        )  # fmt: skip
        table[LOCAL]["bytes"], table[LOCAL]["writable"] = local_bytes, 1
        table[SHARED]["open"] = table[LOCAL]["open"] = 1
        table["kind"], table[SHARED]["kind"], table[LOCAL]["kind"] = IN_ARRAY, IN_SHARED, IN_LOCAL
        if watch.races:
            table[SHARED]["tracked"] = layout.TRACKED
        for number, (data, writable) in enumerate(segments, FIRST_ARRAY):
            segment = table[number]
            segment["host"], segment["bytes"], segment["writable"] = address_of(data), data.nbytes, writable
            segment["open"] = bool(writable)
            if not writable:
                segment["kind"] = IN_CONSTANT
            elif isinstance(writable, InElements):
                segment["open"], segment["covered"] = 0, address_of(writable.covered)
            if watch.races and writable and writable != UNWATCHED:
                expected = watch.stored is None or number in watch.stored
                segment["tracked"] = layout.TRACKED if expected else layout.READ_SO_FAR
            if marks and writable:
                self.marks[number] = aligned(data.nbytes)
                segment["marked"] = address_of(self.marks[number])
            if number in watch.uninitialized:
                self.maps.append(np.zeros(data.nbytes + LANES, np.uint8))
                segment["initialised"], segment["unwritten"] = address_of(self.maps[-1]), data.nbytes
        for array, number in watch.maps:
            shared, local = (address_of(block) for block in (self.shared, self.local))
            room = len(self.local) // (2 * self.warp_count)
            table[array]["host"], table[array]["bytes"] = {
                SHARED: (shared + len(self.shared) // 2, shared_bytes),
                LOCAL: (local + room, max(len(self.local) - room, 0)),
            }.get(number, (table[number]["initialised"], table[number]["bytes"]))

    def _lay_out_clocks(self, ctas: int) -> None:
        """Happens-before and shadow memory, where they are asked for."""
        watch, state, count = self.watch, self.state[0], self.warp_count
        self.planes: Planes | None = None
        if not (watch.races or watch.recycling):
            return
        members = self.grouping.members
        rows = count + members * layout.CTA_ROWS
        width = WIDTHS[self.width]
        self.clocks = np.zeros((rows, -(-count // LANES) * LANES if self.width else LANES), np.int64)
        place = address_of(self.clocks) + np.arange(rows) * self.clocks[0].nbytes
        self.warp_clocks = np.zeros((count, 3 * width), np.int64)
        self.warps["clock"] = address_of(self.warp_clocks) + np.arange(count) * self.warp_clocks[0].nbytes
        self.ctas["exited"] = place[count : count + members]
        for k, name in enumerate(("clock", "took", "took_pc", "took_before", "took_before_pc")):
            first = count + members * (1 + k * layout.BARRIERS)
            self.barriers[name] = place[first : first + members * layout.BARRIERS]
        state["exited"] = self.ctas["exited"][0]
        self.lane_clocks = np.zeros((count, LANES, LANES), np.int64)
        self.warps["lane_clocks"] = address_of(self.lane_clocks) + np.arange(count) * self.lane_clocks[0].nbytes
        self.bases = np.zeros(ctas, np.int64)
        state["bases"] = address_of(self.bases)
        state["clocks"], state["recycling"] = 1, watch.recycling
        state["lockstep"], state["strict"] = watch.lockstep, watch.strict
        vectors, bits, sets = count, 0, 1
        agents = self.image.asynchronous and not self.program.meets_alone
        if agents:
            releases = not self.image.opcodes.isdisjoint((MAP_ACQUIRE, MAP_RELEASE))
            vectors, bits, sets = (
                (5 + members if releases else 4) * count,
                self.rooms.bits,
                4 if self.image.opcodes & ASYNCHRONOUS_PROXY else 2,
            )
        size = LANES * (vectors + sets * bits)
        rows = LANES * count + (layout.CTA_ROWS + 2) * members + 2
        if not self.image.opcodes.isdisjoint(_OF_WARPGROUPS):
            state["group_rows"] = members * (self.cta_warps // 4) * layout.GROUP_ROWS
            rows += int(state["group_rows"])
        self.known = _untouched(rows * size)
        state["known"], state["apart"] = address_of(self.known), watch.apart
        state["row_vectors"], state["row_bits"], state["row_bytes"] = vectors, sets * bits, 8 * size
        state["agent_bits"] = bits
        state["proxies"] = agents
        state["init_fences"] = watch.init_fences
        state["alone"] = watch.alone
        state["converged"] = watch.converged and agents and not watch.lockstep
        state["releases"] = vectors > 4 * count
        self.leaders = np.zeros((count, 5, LANES), np.int64)
        self.warps["leaders"] = address_of(self.leaders) + np.arange(count) * self.leaders[0].nbytes
        self.warps["fenced"] = self.warps["leaders"] + self.leaders[0, 0].nbytes
        if watch.races:
            readers = watch.suspects is None and not (self.width or watch.ordered or watch.named)
            readers &= len(self.image.code) <= UNNAMED
            self.planes = Planes(self.segments, self.state, watch.suspects, -(-count // LANES), watch.windowed, readers)

    def _lay_out_mbarriers(self) -> None:
        """Tables of mbarriers, asynchronous operations and their groups."""
        state, count, rooms = self.state[0], self.warp_count, self.rooms
        self.mbarriers = np.zeros(rooms.mbarriers, layout.MBARRIER)
        self.mbarrier_index = np.zeros(int(self.segments[SHARED]["bytes"]) // 8 + 2, np.int64)
        self.agents = np.zeros(rooms.agents, layout.AGENT)
        self.groups = np.zeros(3 * count * LANES, layout.GROUPS)
        for name, table in (
            ("mbarriers", self.mbarriers), ("mbarrier_index", self.mbarrier_index),
            ("agents", self.agents), ("groups", self.groups),
        ):  # fmt: skip
            state[name] = address_of(table)
        if MAP_ACQUIRE in self.image.opcodes:
            self.acquired = layout.table(rooms.maps, layout.ACQUIRED)
            state["maps"], state["map_room"] = address_of(self.acquired), rooms.maps
        state["agent_room"], state["mbarrier_room"] = rooms.agents, rooms.mbarriers
        state["registers"] = self.program.registers
        state["mbarrier_low"], state["mbarrier_high"] = 1 << 40, -1
        state["asynchronous"] = 1
        if max(self.image.opcodes) >= N_OPERATIONS:
            self._lay_out_objects()
        if state["clocks"]:
            self._lay_out_phases(256 * count, int(state["row_bytes"]))

    def _lay_out_objects(self) -> None:
        """What operations from outside need."""
        state = self.state[0]
        if self.grouping.members > 1:
            raise UnsupportedError("objects from outside, in several CTAs at once")
        self.objects = Objects(self.image.opcodes, int(state["row_bytes"]))
        state["outside"], state["objects"] = address_of(self.objects.table), address_of(self.objects.block)
        state["objects_room"] = len(self.objects.block)

    def _lay_out_phases(self, thin: int, full: int) -> None:
        """The rows of each mbarrier, of so many bytes, in a block of its own."""
        block = layout.THIN_ROWS * thin + layout.FULL_ROWS * full
        self.phases = np.zeros(len(self.mbarriers) * block // 8, np.int64)
        place = address_of(self.phases) + np.arange(len(self.mbarriers)) * block
        for name in ("given", "joined", "used", *_THIN_ROWS):
            size = thin if name in _THIN_ROWS else full
            rows = 2 if name == "given" else 3 if name in ("joined", "joined_pc") else 1
            for row in range(rows):
                field = self.mbarriers[name]
                (field[:, row] if field.ndim > 1 else field)[:] = place
                place = place + size

    def _lay_out_registers(self, rows: Rows, block: tuple[int, ...], dynamic: int) -> None:
        program, size = self.program, self.program.register_bytes
        self.registers = aligned(self.warp_count * size).reshape(self.warp_count, size)
        self.registers[:] = self.image.registers
        for row, (type_, value) in rows.items():
            fill(self.registers, row, type_, value)
        if not program.specials:
            return
        groups, memory = self.grouping, (program.shared_bytes, dynamic, program.local_bytes)
        values = special_values(memory, groups.grid, groups.shape, block, self.window)
        for name, row in program.specials.items():
            if name not in values:
                continue
            dtype = "i8" if name in ("shared", "dynamic", "dynamic_bytes", "local", "local_map") else "i4"
            place = self.registers[:, row : row + LANES * np.dtype(dtype).itemsize].view(dtype)
            value = values[name]
            place[...] = value.reshape(self.warp_count, LANES) if isinstance(value, np.ndarray) else value

    def _lay_out_ctas(self) -> None:
        """What belongs to each CTA of a group."""
        size = layout.BARRIERS * layout.BARRIER.itemsize
        for member, cta in enumerate(self.ctas):
            cta["barriers"] = address_of(self.barriers) + member * size
            cta["first_warp"] = member * self.cta_warps

    def _lay_out_warps(self, local_room: int, threads: int) -> None:
        order = np.arange(self.warp_count)
        warps = self.warps
        if self.grouping.members > 1:
            warps["member"] = order // self.cta_warps
        warps["whole"] = (1 << LANES) - 1
        if threads % LANES:
            warps["whole"][self.cta_warps - 1 :: self.cta_warps] = (1 << threads % LANES) - 1
        warps["registers"] = address_of(self.registers) + order * self.program.register_bytes
        warps["stack"] = address_of(self.stacks) + order * self.stacks[0].nbytes
        warps["parked_entries"] = warps["stack"] + self.stacks[0, 0].nbytes
        if local_room:
            warps["local_host"] = address_of(self.local) + order * 2 * local_room
            if self.watch.initialised:
                warps["local_map"] = warps["local_host"] + local_room

    def _fill_state(self, threads: int, shared_room: int, local_room: int) -> None:
        state, groups = self.state[0], self.grouping
        parts, self.entry = native.compiled(self._parts(), self.width), native.entry(self.width)
        specials, given = self.program.specials, self.program.given_shared
        fields = {
            **parts,
            "address": address_of(self.state),
            "code": address_of(self.image.code),
            "instructions": len(self.image.code),
            "segments": address_of(self.segments),
            "segment_count": len(self.segments),
            "warps": address_of(self.warps),
            "warp_count": self.warp_count,
            "cta_warps": self.cta_warps,
            "members": groups.members,
            "shape": groups.shape,
            "groups_along": groups.along,
            "ctas": address_of(self.ctas),
            "window": self.window,
            "block_threads": threads,
            "register_bytes": self.program.register_bytes,
            "cta_rows": [specials.get(f"ctaid.{axis}", -1) for axis in "xyz"],
            "cluster_rows": [specials.get(f"clusterid.{axis}", -1) for axis in "xyz"],
            "families": address_of(native.FAMILIES),
            "flow": address_of(self.flow),
            "accesses": address_of(self.accesses),
            "shared_host": address_of(self.shared),
            "shared_bytes": shared_room,
            "shared_initialised": address_of(self.shared) + len(self.shared) // 2 if self.watch.initialised else 0,
            "local_bytes": local_room,
            "thread_bytes": self.program.local_bytes,
            "variables": address_of(self.variables),
            "variable_count": len(self.variables),
            "scratch": address_of(self.scratch),
            "lanes_scratch": address_of(self.lanes_scratch),
            "raw": address_of(self.raw),
            "raw_capacity": MOST_FINDINGS,
            "slots": address_of(self.slots),
            "slot_mask": SLOTS - 1,
            "fault_pc": -1,
            "group_step": 1,
            "cast": -1,
            "worn": INTERVALS.values[self.width] - SLICES[self.width] - self.rooms.agents,
            "given_low": given[0] // 8,
            "given_high": given[1] // 8,
            "barriers": address_of(self.barriers),
        }
        for name, value in fields.items():
            state[name] = value
        if self.marks:
            state["access_entry"], state["noted_entry"] = parts["noted_entry"], parts["access_entry"]
        if self.image.asynchronous:
            state["access_entry"], state["guarded_entry"] = parts["guarded_entry"], state["access_entry"]
        if groups.members > 1:
            state["access_entry"], state["window_entry"] = parts["window_entry"], state["access_entry"]
        if self.watch.ordered:
            self.ordered = np.zeros(len(self.image.code) + 1, np.uint8)
            self.ordered[list(self.watch.ordered)] = 1
            state["ordered"] = address_of(self.ordered)
            state["access_entry"], state["ordered_entry"] = parts["ordered_entry"], state["access_entry"]
        if self.watch.joined:
            self._join_stores(parts)

    def _join_stores(self, parts: dict[str, int]) -> None:
        """Let cells tell joined stores from all others: each is two instructions more, of even and odd turns."""
        state, n, stores = self.state[0], len(self.image.code), sorted(self.watch.joined)
        rows = np.repeat(self.image.code[stores], 2, axis=0)
        rows[:, 0] = N_MEMORY
        rows[:, 7] = rows[:, 7] & ~0xFF & (1 << UNUSED_SHIFT) - 1 | np.tile([EVEN, ODD], len(stores))
        self.code = np.concatenate([self.image.code, rows])
        self.joined = np.zeros(n + 1, np.int64)
        self.joined[stores] = n + 2 * np.arange(len(stores))
        state["code"], state["joined"] = address_of(self.code), address_of(self.joined)
        state["shadow_entry"], state["track_entry"] = parts["joined_entry"], parts["shadow_entry"]
        self.turns = [np.zeros(int(segment["bytes"]), np.uint8) for segment in self.segments]
        self.turns[SHARED] = np.zeros(len(self.shared), np.uint8)
        self.turn_places = np.array([address_of(turns) if len(turns) else 0 for turns in self.turns], np.int64)
        state["turns"] = address_of(self.turn_places)

    def _parts(self) -> frozenset[str]:
        """The parts of the VM that this launch needs."""
        watch = self.watch
        return _needed(
            self.image.opcodes,
            races=watch.races,
            exact=watch.suspects is not None,
            noted=bool(self.marks),
            grouped=self.grouping.members > 1,
            ordered=bool(watch.ordered),
            joined=bool(watch.joined),
            clusters=self.clusters,
            asynchronous=self.image.asynchronous,
            sums=self.image.sums,
        )

    def _fill_costs(self, arch: str) -> None:
        """What accesses cost on this architecture."""
        model, state = ARCHS[arch].costs, self.state[0]
        for name in ("banks", "merges", "one_broadcast", "atomics", "halves"):
            state[name] = getattr(model, name)
        for name in ("pass_lanes", "requests", "extra"):
            state[name] = sum(n << 8 * k for k, n in enumerate(getattr(model, name)))
        state["line"] = model.line.bit_length() - 1
        tensor = ARCHS[arch].tensor_core
        for name in ("bits", "halves", "byte_bits"):
            state[f"tensor_{name}"] = getattr(tensor, name)
        if self.image.multiplies:
            self.matrix = aligned(BUFFER)
            state["matrix"], state["matrix_shapes"] = address_of(self.matrix), address_of(shapes())
        state["patterns"], state["weighed"] = address_of(self.patterns), address_of(self.weighed)
        state["plans"], state["plans_due"] = address_of(self.plans), address_of(self.plans_due)
        state["shortcuts"] = N_MEMORY if model._replace(atomics=True) == ARCHS[DEFAULT].costs else 0
        state["planned"] = state["shortcuts"] if self.watch.races and not self.watch.joined else 0
        if self.clusters:
            state["shortcuts"] = 0

    def run(
        self,
        first: int,
        last: int,
        budget: int,
        stop: threading.Event | None = None,
        step: int = 1,
        each: Callable[[int], None] | None = None,
    ) -> int:
        """Run groups from first up to, not including, last; returns the status.  `each` is told how many have run.

        Looks up between slices, so that Ctrl-C gets through, and gives compiled code what it stops for.
        """
        state, address = self.state[0], address_of(self.state)
        state["group"], state["group_end"], state["group_step"], state["group_first"] = first, last, step, first
        self.alone = {}
        self.executed = told = 0
        while True:
            if self.tier != "off":
                hot.look(self)
            soon = hot.until_worth(self, FIRST_SLICE) if hot.undecided(self) else budget
            piece = min(budget, SLICES[self.width], soon)
            state["budget"], state["patience"] = piece, PATIENCE
            status = self.entry(address)
            hot.settle(self)
            executed = piece - int(state["budget"])  # what it has overdrawn, too: slices end anywhere
            budget -= executed
            hot.warm(self, executed)
            if state["unnamed"]:
                return layout.UNNAMED
            if status == layout.LOOK:
                continue
            if status in (layout.REFINE, layout.SWEEP) and self.planes:
                if not self._provide(status, self.planes):
                    state["wanted"] = layout.GROW_WINDOW
                    return layout.GROW
                if stop is not None and stop.is_set():
                    self.left, self.status = budget, layout.BUDGET
                    return layout.BUDGET
            elif status != layout.BUDGET or budget < 0 or (stop is not None and stop.is_set()) or self._worn():
                self.left, self.status = budget, status
                return status
            if each is not None and self.executed - told >= SLICES[self.width]:
                told = self.executed
                each(abs(int(state["group"]) - first))

    def run_each(self, groups: Sequence[int], budget: int) -> int:
        """Run these groups, which may lie apart, in their order; the status of the first that does not end well."""
        alone, status = {}, layout.DONE
        for group in groups:
            status = self.run(group, group + 1, budget)
            alone[group] = int(self.bases[0])
            if status != layout.DONE:
                break
        self.alone = alone
        return status

    def move(self) -> None:
        """What it runs next lies apart from what it ran."""
        if self.planes:
            self.planes.move()

    def _provide(self, status: int, planes: Planes) -> bool:
        """Do what compiled code stopped for; False where windows have no room for it."""
        state = self.state[0]
        if status == layout.SWEEP:
            planes.sweep()
            return True
        size = int(state["wanted"]) or int(self.image.code[state["fault_pc"], 7]) & 255
        done = planes.refine(int(state["fault_warp"]), size)
        state["fault_pc"], state["fault_warp"], state["wanted"] = -1, 0, 0
        return done

    def again(self, rows: Rows, segments: list[tuple[Bytes, bool]]) -> None:
        """Make it ready for another launch that differs in its arguments alone.  `remember` was called first."""
        for row, (type_, value) in rows.items():
            before = self._filled.get(row)
            if value.__class__ is int and before == (type_, value) and before[1].__class__ is int:
                continue  # floats may be equal and have other bits
            fill(self._first_registers, row, type_, value)
            self._filled[row] = type_, value
        for number, (data, _) in enumerate(segments):
            place = address_of(data), data.nbytes
            if place != self._places[number]:
                self._places[number] = place
                segment = self._first_segments[FIRST_ARRAY + number]
                segment["host"], segment["bytes"] = place
        if self.image.asynchronous:
            self.goes_on = True
            counted = [int(self.state[0][name]) for name in _COUNTED_ON]
        self.work = 0
        self.permits = self.sections = None
        for table, first in self._first:
            table[:] = first
        if self.goes_on:
            for name, count in zip(_COUNTED_ON, counted, strict=True):
                self.state[0][name] = count
        self._keep = segments
        self.plans_due["since"] = 0
        if self.planes:
            self.planes.again()

    def remember(self) -> bool:
        """Keep what its tables hold before it runs; False where they are too large for that to be worth it, or some are
        more than what the key of the launch says."""
        lasting = _PARTLY_USED | _OF_GROUPS if self.image.asynchronous else _PARTLY_USED
        tables = {
            name: table for name, table in vars(self).items() if isinstance(table, np.ndarray) and name not in lasting
        }
        large = sum(table.nbytes for table in tables.values()) > REMEMBERED
        if self.maps or self.marks or large or not self._may_go_on():
            return False
        blocks: dict[str, Any] = {name: table.reshape(-1).view(np.uint8) for name, table in tables.items()}
        firsts = {name: block.copy() for name, block in blocks.items()}
        # views of memory: NumPy would let other threads in at each of these copies, and wait for them after it
        self._first = [(memoryview(block), memoryview(firsts[name])) for name, block in blocks.items()]
        self._first_registers = firsts["registers"].reshape(self.registers.shape)
        self._first_segments = firsts["segments"].view(layout.SEGMENT)
        self._filled: dict[int, tuple[str, int | float | bool]] = {}
        self._places = [(0, 0)] * len(self._keep)
        return True

    def _may_go_on(self) -> bool:
        """Whether a launch on it may begin where the one before has ended, if it has asynchronous operations."""
        if not self.image.asynchronous:
            return True
        lasting = sum(table.nbytes for name, table in vars(self).items() if name in _OF_GROUPS or name == "known")
        return lasting <= LASTING and not self.program.cooperative and max(self.image.opcodes) < N_OPERATIONS

    def _may_rest(self) -> bool:
        """Whether what it goes on with is what a group leaves that has ended well, and leaves room to count."""
        state = self.state[0]
        if self.status != layout.DONE or state["raw_count"] or state["slot_count"]:
            return False
        return bool(state["operations"] < MOST_OPERATIONS and 2 * state["top"] < state["worn"])

    def ended_well(self) -> bool:
        """Whether its last run found nothing, and came to its end or to that of its budget."""
        return self.status in (layout.DONE, layout.BUDGET) and not self.state[0]["raw_count"]

    def as_before(self, budget: int) -> Outcome | None:
        """The outcome of the launch before, where this one did the same."""
        if self._told is None or self.state[0]["raw_count"] or (self.planes and self.planes.suspects()):
            return None
        tables, outcome = self._told
        return outcome if tables == self._counted() and outcome.warp_instructions <= budget else None

    def tell(self, outcome: Outcome) -> None:
        """Remember an outcome without findings of a launch that ran to its end: that of whatever leaves the same."""
        self._told = self._counted(), outcome

    def _counted(self) -> tuple[bytes, ...]:
        return self.flow.tobytes(), self.accesses.tobytes(), self.patterns.tobytes()

    def rest(self) -> bool:
        """After a run: be ready for `again`; False where it has grown."""
        state, planes = self.state[0], self.planes
        if self.image.asynchronous and not self._may_rest():
            return False
        if planes and not planes.rest(self.image.access_bytes):
            return False
        self.raw[: int(state["raw_count"])] = 0
        if state["slot_count"]:
            self.slots[:] = 0
        if state["apart"] and not self.image.asynchronous:
            self.known[:] = 0
        self._keep = []
        return True

    def close(self) -> None:
        """Leave the large tables to later launches."""
        state = self.state[0]
        _give_back(self.raw, int(state["raw_count"]))
        _give_back(self.slots, SLOTS if state["slot_count"] else 0)
        if self.watch.races or self.watch.recycling:
            POOL.give(self.known, 0, len(self.known) if state["apart"] or self.image.asynchronous else 0)
        if self.planes:
            self.planes.close()

    def _worn(self) -> bool:
        """The numbers of intervals may run out in the next slice: only a budget over the default can get there, or a
        wide group."""
        state = self.state[0]
        if self.planes is None:
            return False
        return max(int(self.warp_clocks.max()), int(state["top"])) > int(state["worn"])

    def unfinished(self, status: Status) -> Iterator[tuple[int, int]]:
        """(instruction, lanes) where groups of lanes stopped in the midst of a stretch that was counted as a whole."""
        for w, warp in enumerate(self.warps):
            pc, mask, parked = (int(warp[name]) for name in ("pc", "mask", "parked"))
            entries = self.stacks[w, 1, : int(warp["parked_count"])] if parked else ()
            yield from ((int(entry["resume"]), int(entry["mask"])) for entry in entries)
            waiting = self.stacks[w, 0, : int(warp["depth"])]
            yield from ((int(e["resume"]), int(e["mask"])) for e in waiting[waiting["join"] == layout.MIDWAY])
            running = mask and warp["alive"]
            ended = status in ("trap", "stack") and w == int(self.state[0]["fault_warp"])
            if running and not ended:
                yield pc, mask

    def _finding(self, raw: Any) -> RawFinding:
        code = CODE_NAMES[int(raw["code"])]
        values = raw["detail"].tolist()
        detail = {name: value for name, value in zip(_DETAIL[code], values, strict=False) if name}
        if code in _OF_PHASES and not self.watch.other_lanes:
            del detail["other_lane"]
        group, other_group = int(raw["cta"]), int(raw["cta"])
        cta, warp = self.actor(group, int(raw["warp"]))
        _index_detail(code, detail)
        if "other_interval" in detail and code != "barrier-recycling":
            other_group = self._place_intervals(group, detail)
            detail["other_cta"] = -1
            _hide_agents(detail, int(raw["detail"][9]))
            if code == "race" and not raw["detail"][8]:
                del detail["other_lane"], detail["other_last"]
        other_cta, other_warp = self.actor(other_group, int(raw["other_warp"]))
        if "other_cta" in detail or other_cta not in (cta, -1):
            detail["other_cta"] = other_cta
        return RawFinding(
            code, self._written_as(int(raw["pc"])), cta, warp, int(raw["lanes"]),
            self._written_as(int(raw["other_pc"])), other_warp, detail, int(raw["count"]),
        )  # fmt: skip

    def _written_as(self, pc: int) -> int:
        """The instruction of the program that one of a joined store stands for."""
        beyond = pc - len(self.image.code)
        return pc if beyond < 0 else sorted(self.watch.joined)[beyond // 2]

    def actor(self, group: int, warp: int) -> tuple[int, int]:
        """(CTA, its warp) of a warp of a group; -1 for none."""
        if warp < 0:
            return (-1, warp) if self.grouping.members > 1 else (group, warp)
        member, number = divmod(warp, self.cta_warps)
        return self.grouping.cta(group, member), number

    def _place_intervals(self, group: int, detail: dict[str, int]) -> int:
        """Intervals as counted in their group; the group of the other one."""
        groups, bases = self._until(group)
        other = (int(np.searchsorted(bases, detail["other_interval"])) or len(bases)) - 1
        detail["interval"] -= int(bases[-1])
        detail["other_interval"] -= int(bases[other])
        return groups[other]

    def _until(self, group: int) -> tuple[Sequence[int], npt.NDArray[np.int64]]:
        """The groups that have run up to this one, and their bases."""
        if self.alone:
            groups = [*self.alone][: [*self.alone].index(group) + 1]
            return groups, np.array([self.alone[each] for each in groups])
        first, step = int(self.state[0]["group_first"]), int(self.state[0]["group_step"])
        return range(first, group + step, step), self.bases[: (group - first) * step + 1]

    def _overflow(self) -> list[FindingKey]:
        """The findings for which there was no room, in order."""
        without = self.slots["key"][(self.slots["key"] != 0) & (self.slots["number"] < 0)].tolist()
        pc = (1 << PC_BITS) - 1
        return sorted(
            FindingKey(CODE_NAMES[(key >> 2 * PC_BITS) - 1], (key >> PC_BITS & pc) - 1, (key & pc) - 1)
            for key in without
        )

    def _stopped_in(self, status: int) -> int:
        """The CTA of a group that a run stopped in: where nobody can go on, the first one that waits, for others than
        the rest of its cluster or of the grid if there is one."""
        alive = np.flatnonzero(self.warps["alive"]).tolist()
        if status == layout.DEADLOCK and alive:
            meeting = {w for w, _, _, row in self._parked() if row[0] == _CLUSTER_WAIT}
            stand = self.ctas["met"] > self.state[0]["grid_phase"]
            alone = (w for w in alive if w not in meeting and not stand[w // self.cta_warps])
            return next(alone, alive[0]) // self.cta_warps
        return int(self.state[0]["member"])

    def _phases(self) -> list[PhaseState]:
        """The live mbarriers, by address."""
        live = [b for b in self.mbarriers[: int(self.state[0]["mbarrier_count"])] if b["live"]]
        return [
            PhaseState(
                SHARED << SEGMENT_SHIFT | int(b["word"]) << 3,
                *(int(b[name]) for name in ("phase", "pending", "expected", "tx", "init_pc")),
            )
            for b in sorted(live, key=lambda b: int(b["word"]))
        ]

    def _parked(self) -> Iterator[tuple[int, int, int, list[int]]]:
        """(warp, instruction, lanes, its fields) of what stands somewhere."""
        for w, warp in enumerate(self.warps):
            for entry in self.stacks[w, 1, : int(warp["parked_count"])] if warp["parked"] else ():
                pc = int(entry["resume"]) - 1
                yield w, pc, int(entry["mask"]), self.program.code[pc].tolist()

    def _phase_waits(self) -> list[PhaseWait]:
        """The lanes that stand at mbarriers."""
        phases = {phase.address: phase for phase in self._phases()}
        waits: list[PhaseWait] = []
        for w, pc, mask, row in self._parked():
            if row[0] in _WAITS:
                waits += self._phase_waits_at(w, pc, mask, row, phases)
        return sorted(waits, key=lambda wait: (wait.warp, wait.lanes & -wait.lanes))

    def _object_waits(self) -> list[ObjectWait]:
        """The lanes that stand at objects from outside."""
        at = (self.objects.wait(row, w, pc, mask) for w, pc, mask, row in self._parked() if row[0] >= N_OPERATIONS)
        return sorted((wait for wait in at if wait), key=lambda wait: (wait.warp, wait.lanes & -wait.lanes))

    def _cluster_waits(self) -> Iterator[ObjectWait]:
        """The lanes that stand at the barrier of their cluster."""
        alive = self.warps["alive"]
        arrived = sum((int(a) & int(b)).bit_count() for a, b in zip(alive, self.warps["cluster_arrived"], strict=True))
        threads = sum(int(mask).bit_count() for mask in alive)
        for w, pc, mask, row in self._parked():
            if row[0] == _CLUSTER_WAIT:
                yield ObjectWait(w, mask, pc, "cluster barrier", -1, arrived, threads)

    def _grid_waits(self) -> Iterator[ObjectWait]:
        """The lanes that stand at the barrier of the grid."""
        members, group = self.grouping.members, int(self.state[0]["group"])
        missing = np.flatnonzero(self.ctas["met"] <= self.state[0]["grid_phase"]).tolist()
        ctas = tuple(self.grouping.cta(group, member) for member in missing)
        for w, pc, mask, row in self._parked():
            if row[0] == _GRID_WAIT:
                yield ObjectWait(w, mask, pc, "barrier of the grid", -1, members - len(missing), members, ctas)

    def _warpgroup_waits(self) -> Iterator[ObjectWait]:
        """The warps that stand at a `wgmma.commit_group` which others of their warpgroup have not made."""
        for w, pc, mask, row in self._parked():
            if row[0] == _COMMIT:
                first = w - w % self.cta_warps % 4
                committed = [int(n) for n in self.warps["committed"][first : first + 4]]
                yield ObjectWait(w, mask, pc, WARPGROUP, -1, sum(n >= committed[w - first] for n in committed), 4)

    def _elsewhere(self, member: int) -> list[tuple[int, int, int]]:
        """(CTA, warp, instruction) of warps that wait in the other CTAs of the group."""
        group = int(self.state[0]["group"])
        found = []
        for w, warp in enumerate(self.warps):
            if warp["alive"] and warp["member"] != member:
                pc = int(self.stacks[w, 1, 0]["resume"]) - 1 if warp["parked"] else int(warp["wait_pc"])
                found.append((*self.actor(group, w), pc))
        return found

    def _phase_waits_at(
        self, w: int, pc: int, mask: int, row: list[int], phases: dict[int, PhaseState]
    ) -> Iterator[PhaseWait]:
        """What the lanes of a group wait for."""
        op, _, _, a, b, _, imm, _ = row
        type_ = np.uint64 if NAMES[op] == "mbarrier.wait" else np.uint32
        addresses = self.registers[w, a : a + 8 * LANES].view(np.int64)
        asked = self.registers[w, b : b + LANES * np.dtype(type_).itemsize].view(type_)
        groups: dict[tuple[int, int], int] = {}
        for lane in _bits(mask):
            address = (int(addresses[lane]) + imm) & ~ADDRESS_WRAPPED
            token, phase = int(asked[lane]), -1
            if address in phases:
                odd = token >> 63 if type_ is np.uint64 else token & 1
                phase = phases[address].phase
                phase -= odd != phase & 1  # it is complete already
                if type_ is np.uint64 and token & 0xFFFFFFFF:
                    phase = (token & 0xFFFFFFFF) - 1
            groups[address, phase] = groups.get((address, phase), 0) | 1 << lane
        for (address, phase), lanes in groups.items():
            yield PhaseWait(w, lanes, pc, address, phase)

    def outcome(self, status: int) -> Outcome:
        state = self.state[0]
        result = Outcome(STATUS[status], [self._finding(r) for r in self.raw[: int(state["raw_count"])]])
        result.findings.sort(key=lambda f: (f.code, f.pc, f.other_pc))
        result.window = self.window or SEGMENT_SHIFT
        result.group = self.grouping.shape if self.clusters or self.program.cooperative else (1, 1, 1)
        if state["slot_count"] > MOST_FINDINGS:
            result.overflow = self._overflow()
        if status != layout.DONE:
            member = self._stopped_in(status)
            group = int(state["group"])
            result.cta = self.grouping.cta(group, member)
            result.fault_pc, result.fault_warp = int(state["fault_pc"]), int(state["fault_warp"])
            result.fault_warp %= self.cta_warps
            first = member * self.cta_warps

            def own(warp: int) -> bool:
                return warp // self.cta_warps == member

            result.warps = [
                _warp_state(w, self.warps[first + w], self.stacks[first + w, 1]) for w in range(self.cta_warps)
            ]
            barriers = self.barriers[member * layout.BARRIERS :][: layout.BARRIERS]
            result.barriers = [_barrier_state(n, b) for n, b in enumerate(barriers) if b["arrived"]]
            if self.image.asynchronous:
                result.phases = self._phases()
                result.phase_waits = [w._replace(warp=w.warp - first) for w in self._phase_waits() if own(w.warp)]
                waits = [*self._object_waits(), *self._cluster_waits(), *self._grid_waits(), *self._warpgroup_waits()]
                result.object_waits = [w._replace(warp=w.warp - first) for w in waits if own(w.warp)]
            result.elsewhere = self._elsewhere(member)
        return result


def _hide_agents(detail: dict[str, int], agents: int) -> None:
    """Asynchronous operations have no intervals; bit 0 of `agents` says that the later side is one, bit 1 the other."""
    for bit, side, interval in ((1, "async", "interval"), (2, "other_async", "other_interval")):
        if agents & bit:
            detail[side], detail[interval] = 1, 0


def _index_detail(code: str, detail: dict[str, int]) -> None:
    """What went wrong with an index or address, in words of its own."""
    if code == "out-of-bounds":
        kind = detail.pop("kind")
        detail["wrapped"], detail["readonly"] = int(kind == WRAPPED), int(kind == READ_ONLY)
        if kind == ELSEWHERE:
            detail["elsewhere"] = 1
        elif kind == GAP:
            detail["gap"] = 1
        if kind == BAD_INDEX:
            detail["index"] = detail.pop("address")


def _warp_state(number: int, warp: Any, parked: Any) -> WarpState:
    waits = int(warp["waits"]) if warp["alive"] and warp["waits"] not in _APART else -1
    entries = parked[: int(warp["parked_count"])] if waits < 0 else ()
    standing = tuple((int(entry["resume"]) - 1, int(entry["mask"])) for entry in entries)
    pc = int(warp["wait_pc"] if waits >= 0 else warp["last_pc"])
    return WarpState(number, pc, int(warp["alive"]), waits, standing)


def _barrier_state(number: int, barrier: Any) -> BarrierState:
    generation, arrived, expected = (int(barrier[name]) for name in ("generation", "arrived", "expected"))
    now, before = (int(barrier[name]) for name in ("warps", "last_warps"))
    return BarrierState(number, generation, arrived, expected, _bits(now), _bits(before))


def _bits(mask: int) -> list[int]:
    return [n for n in range(64) if mask >> n & 1]


_APART = (layout.HELD, layout.AWAITS)
_WAITS = tuple(OPCODE[name] for name in WAITS)
_COMMIT = OPCODE["wgmma.commit"]
_CLUSTER_WAIT, _GRID_WAIT = OPCODE["cluster.wait"], OPCODE["grid.wait"]
_THIN_ROWS = (
    "joined_pc", "used_pc", "reach", "cover", "waited", "waited_first", "waited_pc", "expects", "expects_pc",
    "pluses", "pluses_pc", "held", "held_pc", "followed",
)  # fmt: skip
_CONFLICT = ("address", "kind", "other_kind", "size", "interval", "other_interval", "other_lane", "other_last")
_OF_PHASES = frozenset(("phase-alias", "uncovered-expectation", "mbarrier-lifetime"))
_DETAIL = {
    "out-of-bounds": ("address", "kind", "size", "segment", "bytes"),
    "misaligned": ("address", "alignment", "size", "segment"),
    "uninitialized-read": ("address", "", "size", "segment"),
    "count-mismatch": ("barrier", "generation", "expected", "count", "arrived"),
    "all-arrive": ("barrier", "generation", "arrived"),
    "oversubscribed": ("barrier", "count", "threads"),
    "invalid-barrier": ("barrier", "count", "kind"),
    "barrier-divergence": ("barrier", "alive", "members"),
    "dangling-arrive": ("barrier", "generation", "arrived", "expected"),
    "barrier-recycling": ("barrier", "generation", "interval", "other_interval"),
    "undefined-shuffle": ("source",),
    "failed-assertion": (),
    "raised-exception": (),
    "same-value": (),
    "race": _CONFLICT,
    "intra-warp-race": _CONFLICT,
    "proxy": _CONFLICT,
    "proxy-war": _CONFLICT,
    "mbarrier-uninitialized": ("address", "ordered", "dead"),
    "mbarrier-reinit": ("address",),
    "same-value-init": ("address",),
    "mbarrier-unfenced": ("address",),
    "mbarrier-clobber": ("address", "at", "kind", "size", "asynchronous"),
    "mbarrier-lifetime": ("address", "phase", "what", "other_lane"),
    "mbarrier-range": ("address", "value", "what"),
    "over-arrival": ("address", "phase", "pending", "count"),
    "phase-alias": ("address", "phase", "rule", "other_lane"),
    "phase-unobserved": ("address", "phase"),
    "uncovered-expectation": ("address", "phase", "what", "other_lane"),
    "tx-mismatch": ("address", "phase", "bytes", "pending"),
    "dangling-phase": ("address", "phase", "pending", "expected"),
    "async-outlives-cta": ("address", "bytes", "what"),
    "store-outlives-cta": ("address", "bytes"),
    "copy-size": ("bytes", "what"),
    "tensor-map": ("address", "what", "value"),
    "tensormap-proxy": ("address", "what"),
    "setmaxnreg": ("count", "what", "present"),
    "wgmma-register": ("mark",),
    "wgmma-unfenced": ("mark",),
    "wgmma-divergence": ("what",),
    "dsmem-before-start": ("rank",),
    "dsmem-after-exit": ("rank",),
    "dsmem-relaxed-exit": ("rank",),
    "cluster-barrier": ("what",),
    "remote-mbarrier": ("address", "rank", "goal"),
    "scope": ("address", "what"),
}


def width_of(groups: Grouping, cta_warps: int) -> int:
    """How wide a machine has to be, as an index of WIDTHS."""
    warps = groups.members * cta_warps
    return next(width for width, most in enumerate(WIDTHS) if warps <= most)


def _untouched(n: int) -> npt.NDArray[np.int64]:
    """n zeros, most of which are never looked at: of many the system sets nothing aside."""
    if 8 * n <= LARGE or not sys.platform.startswith("linux"):
        return POOL.take(n)
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE
    return np.frombuffer(mmap.mmap(-1, 8 * n, flags=flags), np.int64)


LARGE = 1 << 28
"""bytes"""
_NO_RESERVE = 0x4000
"""MAP_NORESERVE of Linux"""


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def most_ctas(ctas: int, budget: int) -> int:
    """How many CTAs of a grid may start within a budget; UsageError if that many cannot be told apart."""
    slack = budget // SLICE + 3  # each slice may overdraw by one CTA
    most = min(ctas, budget // (CTA_COST + 1) + slack)
    if most > MOST_CTAS:
        raise UsageError(
            f"a grid of {ctas:,} CTAs within a budget of {budget:,} warp instructions takes {8 * most / 1e9:,.1f} GB "
            f"to tell CTAs apart: at most {MOST_CTAS:,} CTAs may start; launch fewer, or lower `budget=` (`--budget`)"
        )
    return most


_kept: dict[Any, list[Machine]] = {}
"""machines that have run, by what the next launch must have in common with theirs"""
_MOST_KEPT = 16
"""kinds of launches"""
MOST_REMEMBERED = 1 << 17
"""CTAs that a machine may run which is kept: 8 bytes each"""
_ROOMS = Rooms()


def _leave(machine: Machine) -> None:
    """Keep a machine for the next launch of its kind, or leave its tables to any.

    A machine takes as long to lay out as a small launch takes: what all of its kind have in common is laid out once.
    """
    if machine.key is not None and machine.planes:
        while not ROOM.has(machine.planes.held()) and _drop_oldest(machine.key):
            pass
    if machine.key is None or not machine.rest():
        machine.close()
        return
    with _keeping:
        known = _kept.pop(machine.key, [])
        _kept[machine.key] = [*known, machine]
        many = len(_kept) > _MOST_KEPT
    if many:
        _drop_oldest(machine.key)


def _drop_oldest(but: Any) -> bool:
    """Let go of the machines of the kind of launches that was made longest ago; False where there is no other."""
    with _keeping:
        oldest = next((key for key in _kept if key != but), None)
        machines = _kept.pop(oldest, [])
    for machine in machines:
        machine.close()
    return oldest is not None


def _copy(data: Bytes, workers: int) -> Bytes:
    """A copy, which takes as long as many a launch where it is large and made by one."""
    if workers == 1 or len(data) < MUCH:
        return data.copy()
    made = np.empty_like(data)
    bounds = [len(data) * k // workers for k in range(workers + 1)]
    parts = [slice(*part) for part in itertools.pairwise(bounds)]
    _on_all([functools.partial(np.copyto, made[part], data[part]) for part in parts])
    return made


MUCH = 1 << 20
"""bytes that are worth being copied by several"""


def _take(key: Any, number: int) -> Machine | None:
    """A machine that was left by a launch of this kind, that of this worker if it is there."""
    with _keeping:
        known = _kept.get(key) if key else None
        if not known:
            return None
        own = (at for at, machine in enumerate(known) if machine.number == number)
        return known.pop(next(own, -1))


_keeping = threading.Lock()


class _Hand(threading.Thread):
    """A thread that makes calls for launches which are spread over the cores."""

    def __init__(self) -> None:
        super().__init__(name="wsemu", daemon=True)  # idle at the end: launches wait for theirs
        self.given: SimpleQueue[tuple[Callable[[], Any], int, SimpleQueue[Any]]] = SimpleQueue()
        self.start()

    def run(self) -> None:
        while True:
            call, number, done = self.given.get()
            result, error = None, None
            try:
                result = call()
            except BaseException as raised:
                error = raised
            _idle.append(self)
            done.put((number, result, error))
            del call, result, error


_idle: list[_Hand] = []
"""those that wait for a call; each is told by itself, so that all begin at once"""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_idle.clear)


def _hand() -> _Hand:
    try:
        return _idle.pop()
    except IndexError:
        return _Hand()


def _on_all(calls: list[Callable[[], _T]], stop: threading.Event | None = None) -> list[_T]:
    """What these return, which run at once; interrupted, it waits for them after `stop` is set."""
    done: SimpleQueue[tuple[int, Any, BaseException | None]] = SimpleQueue()
    found, errors, left = {}, [], 0
    try:
        for number, call in enumerate(calls[1:], 1):
            _hand().given.put((call, number, done))
            left += 1
        found[0] = calls[0]()
        while left:
            number, result, error = done.get()
            left -= 1
            found[number] = result
            errors += [error] if error else []
    except BaseException:
        if stop is not None:
            stop.set()
        for _ in range(left):
            done.get()
        raise
    if errors:
        raise errors[0]
    return [found[number] for number in range(len(calls))]


def _shares(groups: int, workers: int) -> list[deque[tuple[int, int]]]:
    """Groups from first up to, not including, last, for each worker: half of its own, half of the rest, and so on; none
    longer than what a machine has room for, see `_ready`."""
    shares: list[deque[tuple[int, int]]] = []
    for number in range(workers):
        begin, last = groups * number // workers, groups * (number + 1) // workers
        own: deque[tuple[int, int]] = deque()
        while begin < last:
            rest = last - begin
            end = begin + (rest + 1) // 2 if len(own) < MOST_SHARES - 1 else last
            own.append((begin, end))
            begin = end
        shares.append(own)
    return shares


MOST_SHARES = 5
"""of a worker: what the slower ones have not begun is run by those that are done with their own"""


def _next_share(shares: list[deque[tuple[int, int]]], number: int) -> tuple[int, int] | None:
    """What a worker runs next: of its own the first, then the last, a small one, of who has the most left."""
    try:
        if shares[number]:
            return shares[number].popleft()
        return max(shares, key=len).pop()
    except (IndexError, ValueError):  # others were quicker, or have stopped
        return None


def _add(tell: Callable[[int], None], before: int, ran: int) -> None:
    tell(before + ran)


class Launch:
    """A launch on the VM, which can be run again: what its arrays held at first is kept."""

    def __init__(
        self,
        program: Program,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        rows: Rows,
        segments: list[tuple[Bytes, bool]],
        *,
        dynamic_shared: int = 0,
        budget: int = 1_000_000_000,
        workers: int | None = None,
        descending: bool = False,
        watch: Watch | None = None,
        arch: str = DEFAULT,
        shape: tuple[int, int, int] = (1, 1, 1),
        clusters: bool = False,
        only: tuple[int, ...] = (),
        each: Callable[[int, int], None] | None = None,
    ) -> None:
        """`rows` are the parameter rows, `segments` the bytes of each array with whether it may be written, `budget`
        the warp instructions after which the run ends; `arch` says what accesses cost. A large launch without atomics
        spreads its CTAs over `workers` threads (default: the cores); `descending` runs the last CTA first. Neither
        changes the outcome.  Grouping of CTAs of this `shape`, which divides the grid, are alive at once; in `clusters`
        they access each other's shared memory.  `only` these CTAs are run, in this order, where there are any.
        `each` is told now and then how many CTAs have run, of how many.
        """
        if len(program.code) > MAX_INSTRUCTIONS:
            raise UsageError(f"`{program.name}` has {len(program.code):,} instructions: at most {MAX_INSTRUCTIONS:,}")
        self.program, self.grid, self.block, self.rows = program, grid, block, rows
        self.segments, self.dynamic, self.budget = segments, dynamic_shared, budget
        self.watch = watch or Watch()
        self.ctas = grid[0] * grid[1] * grid[2]
        self.most = most_ctas(self.ctas, budget)
        self.workers, self.descending, self.arch, self.only = workers, descending, arch, only
        self.each = each
        self.tier = hot.tier_of(program)
        self.grouping, self.clusters = _grouping(grid, shape), clusters
        self._check_groups()
        self.read_only = self.watch.read_only and _image_of(ProgramKey(program)).has_read_only_loads
        repeats = self._keeps_contents or self.read_only or descending or self._workers() > 1
        self.pristine = self._copies() if repeats else {}
        if self._windowed():
            self.watch = replace(self.watch, windowed=True)
        self.rooms = Rooms()
        self.anew = False
        """it needs machines on which nothing was run before"""
        self.written: dict[int, npt.NDArray[np.int64]] = {}
        """offsets of the bytes that were loaded as read-only and written, by segment"""

    def _windowed(self) -> bool:
        """Whether large arrays that are written have windows: where CTAs do not hear of each other, and in launches
        before none wrote before the end of those before it."""
        watch = self.watch
        if not (watch.races and watch.stored) or watch.suspects is not None or watch.ordered or self.only:
            return False
        if not any(self.segments[n - FIRST_ARRAY][0].nbytes >= WINDOWS_FROM for n in watch.stored):
            return False
        image = _image_of(ProgramKey(self.program))
        if image.has_atomics or image.asynchronous or self.descending or self.grouping.members > 1:
            return False
        return self._shape not in self.program.derived.get("interleaved", ())

    @property
    def _shape(self) -> Any:
        return self.grid, self.block

    def _without_windows(self) -> None:
        self.watch = replace(self.watch, windowed=False)
        self.program.derived.setdefault("interleaved", set()).add(self._shape)

    def _check_groups(self) -> None:
        """UnsupportedError where too many warps would be alive at once."""
        members, most = self.grouping.members, WIDTHS[-1]
        warps = -(-self.block[0] * self.block[1] * self.block[2] // LANES)
        if members > 1 and members * warps > most:
            raise UnsupportedError(
                f"{members} CTAs of {warps} warps at once: more than {most:,} warps that meet are not modelled",
                remedy=f"launch at most {most // members or 1} warps a CTA, or fewer CTAs at once",
            )

    def _copies(self) -> dict[int, Bytes]:
        stored = self.watch.stored if self.watch.races else None  # else nobody tells when others are written
        numbered = enumerate(self.segments, FIRST_ARRAY)
        wanted = {n: data for n, (data, writable) in numbered if writable and (stored is None or n in stored)}
        return {n: _copy(data, self._workers()) for n, data in wanted.items()}

    def _ready(self, number: int, workers: int) -> Machine:
        """A machine for a share of the launch: one that has run another of its kind, where there is one."""
        share = min(self.most, -(-self.grouping.number // workers))
        key = self._kind(share)
        kept = self._kept(key, number)
        if kept is not None:
            return kept
        machine = self._machine(most=share)
        if key and machine.remember():
            machine.key, machine.number = key, number
        return machine

    def _kept(self, key: Any, number: int) -> Machine | None:
        """A machine that a launch of this kind has left, made ready."""
        kept = _take(key, number)
        if kept is not None:
            kept.again(self.rows, self.segments)
            kept.tier = self.tier
        return kept

    def _kind(self, share: int) -> Any:
        """What a machine's tables depend on but the values and places of the arguments; None where that is more."""
        watch = self.watch
        if watch.suspects is not None or watch.uninitialized or self.rooms != _ROOMS or share > MOST_REMEMBERED:
            return None
        if self.anew or watch.joined or watch.maps:
            return None
        return (
            ProgramKey(self.program), self.grid, self.block, self.dynamic, watch, self.arch, share,
            self.grouping.shape, self.clusters, (*self.rows,), (*(writable for _, writable in self.segments),),
        )  # fmt: skip

    def _machine(
        self, segments: list[tuple[Bytes, bool]] | None = None, watch: Watch | None = None, most: int | None = None
    ) -> Machine:
        machine = Machine(
            self.program, self.grid, self.block, self.rows, segments or self.segments, self.dynamic,
            watch or self.watch, self.arch, most or self.most, self.rooms, self.grouping.shape, self.clusters,
        )  # fmt: skip
        machine.tier = self.tier
        if self.watch.joined:
            hot.drop(machine)
        return machine

    def run(self) -> Outcome:
        """Run it.  What is found on several machines, or in another order of CTAs, is found again on one, in order: so
        the outcome does not depend on them."""
        outcome, certain = self._run_once()
        while not certain:  # at most once for each reason
            self._restore()
            outcome, certain = self._run_once()
        if self.written:
            outcome.findings += self._claims()
            outcome.findings.sort(key=lambda f: (f.code, f.pc, f.other_pc))
        return outcome

    def _claims(self) -> list[RawFinding]:
        """Which accesses were the first ones to bytes that were loaded as read-only, and written: another run tells."""
        machine = self._machine(self._as_before(), Watch(races=False, initialised=False))
        hot.drop(machine)  # blocks mark, and claim nothing
        claims = Claims(machine, self.written)
        machine.run(0, self.grouping.number, self.budget)
        return claims.findings()

    @property
    def _keeps_contents(self) -> bool:
        """Whether what arrays held before the launch is kept: what is found may be explained by a second run."""
        return self.watch.races or self.watch.recycling or self.watch.initialised

    def _as_before(self) -> list[tuple[Bytes, bool]]:
        """The arrays, or copies of what they held before the launch."""
        return [
            (self.pristine[n].copy() if n in self.pristine else data, writable)
            for n, (data, writable) in enumerate(self.segments, FIRST_ARRAY)
        ]

    def _restore(self) -> None:
        for number, data in self.pristine.items():
            self.segments[number - FIRST_ARRAY][0][:] = data

    def _run_once(self) -> tuple[Outcome, bool]:
        """The outcome, and whether it holds; if not, what led astray is changed for the next time."""
        workers = self._workers()
        machines, statuses = self._on_machines(workers)
        if layout.WRITTEN in statuses:
            self.watch = replace(self.watch, stored=None)
            self.pristine = self._copies() | self.pristine  # those that were not expected to be written still hold it
            return Outcome("done"), False
        if layout.UNNAMED in statuses:
            self.watch = replace(self.watch, named=True)
            for machine in machines:
                if machine.planes:
                    machine.planes.close()
            return Outcome("done"), False
        if layout.GROW in statuses:
            machine = machines[statuses.index(layout.GROW)]
            wanted = int(machine.state[0]["wanted"])
            if wanted == layout.GROW_WINDOW:
                self._without_windows()
            else:
                most = min(1 << 24, INTERVALS.values[machine.width] >> 3)
                self.rooms = self.rooms.more(wanted, most)
            for machine in machines:
                if machine.planes:
                    machine.planes.close()
            return Outcome("done"), False
        if any(m.goes_on and not m.ended_well() for m in machines):  # what is told counts from the launch's beginning
            self.anew = True
            for machine in machines:
                machine.close()
            return Outcome("done"), False
        plain = workers == 1 and not self.descending
        budget = self.budget - CTA_COST * (self.ctas - 1)
        kept = machines[0] if plain and machines[0].key and statuses == [layout.DONE] else None
        known = kept.as_before(budget) if kept else None
        if kept and known:
            _leave(kept)
            return known, True
        self.written = written_bytes([m.marks for m in machines])
        astray = not plain and (
            any(status != layout.DONE or m.state[0]["raw_count"] for m, status in zip(machines, statuses, strict=True))
            or bool(self.written)
            or (self.watch.races and self._collide(machines))
        )
        suspects = joined([m.planes.suspects() for m in machines if m.planes])
        if suspects:
            apart = any(m.state[0]["apart"] for m in machines)
            self.watch = replace(self.watch, suspects=suspects, apart=apart)
            astray = True
        if astray:
            self._go_alone()
        outcomes = [Outcome("done") if astray else m.outcome(s) for m, s in zip(machines, statuses, strict=True)]
        merged = _merge(self.program, machines, outcomes, budget)
        merged.arch = self.arch
        if merged.status == "budget" and not plain and not astray:  # each alone was within it: one tells where it ends
            astray = True
            self._go_alone()
        if kept and not astray and merged.status == "done" and not merged.findings:
            kept.tell(merged)
        leaving: list[Callable[[], None]] = [functools.partial(_leave, m) for m in machines]
        if workers > 1 and any(m.planes and m.planes.nbytes >= MUCH for m in machines):
            _on_all(leaving)
        else:
            for leave in leaving:
                leave()
        return merged, not astray

    def _go_alone(self) -> None:
        """From now on one machine runs all CTAs in order, without windows."""
        self.workers, self.descending = 1, False
        if self.watch.windowed:
            self._without_windows()

    def _workers(self) -> int:
        """Threads that the CTAs are spread over."""
        if self.only or self.descending:
            return 1
        if _image_of(ProgramKey(self.program)).has_atomics or self.watch.uninitialized:
            return 1
        if self.workers is None:
            large = self.ctas * self.block[0] * self.block[1] * self.block[2] >= PARALLEL_THREADS
            return min(cores(), self.grouping.number) if large else 1
        return max(1, min(self.workers, self.grouping.number))

    def _on_machines(self, workers: int) -> tuple[list[Machine], list[int]]:
        """The machines that the CTAs were spread over, after their runs, and why each stopped."""
        groups = self.grouping.number
        first = self._ready(0, workers)
        if self.only:
            return [first], [first.run_each(self.only, self.budget)]
        told = self._told(workers)
        if workers == 1:
            bounds = (groups - 1, -1) if self.descending else (0, groups)
            return [first], [first.run(*bounds, self.budget, step=-1 if self.descending else 1, each=told[0])]
        stop = threading.Event()
        # by this thread, before the others begin: all of them at once would wait for each other
        kept = [first, *(self._kept(first.key, number) for number in range(1, workers))]

        shares = _shares(groups, workers)

        def one(number: int) -> tuple[Machine, int]:
            machine = kept[number] or self._ready(number, workers)
            left, ran, end, status = self.budget, 0, -1, layout.DONE
            while status == layout.DONE and not stop.is_set() and (share := _next_share(shares, number)):
                if end not in (-1, share[0]):
                    machine.move()
                tell = told[number]
                each = functools.partial(_add, tell, ran) if tell else None
                status = machine.run(*share, left, stop, each=each)
                left, ran, end = machine.left, ran + share[1] - share[0], share[1]
            if status != layout.DONE:
                shares.clear()  # what the others do is not needed any more
            return machine, status

        ran = _on_all([functools.partial(one, number) for number in range(workers)], stop)
        return [machine for machine, _ in ran], [status for _, status in ran]

    def _told(self, workers: int) -> list[Callable[[int], None] | None]:
        """What each worker tells of how many groups of its own have run: the first one passes on the sum."""
        each, done = self.each, [0] * workers
        if each is None:
            return [None] * workers

        def tell(number: int, groups: int) -> None:
            done[number] = groups
            if number == 0:
                each(sum(done) * self.grouping.members, self.ctas)

        return [functools.partial(tell, number) for number in range(workers)]

    def _collide(self, machines: list[Machine]) -> bool:
        numbers = range(FIRST_ARRAY, FIRST_ARRAY + len(self.segments))
        planes = [m.planes for m in machines if m.planes]
        return any(collide(a, b, n, *bytes_) for n in numbers for a, b, *bytes_ in overlapping(planes, n))

    def initial(self) -> list[Bytes | None]:
        """What the arrays held before the launch, segment by segment; None where that was not kept."""
        return [
            self.pristine.get(n, data if self._keeps_contents or not writable else None)
            for n, (data, writable) in enumerate(self.segments, FIRST_ARRAY)
        ]

    def trace(self, accesses: frozenset[int], cta: int | None = None) -> Trace:
        """The events of a second run, equal to the first, on copies of the arrays, up to the end of the CTA where only
        one is wanted; `accesses` are the instructions whose executions are wanted."""
        machine = self._machine(self._as_before(), Watch(races=False, initialised=False, read_only=False))
        logged = np.zeros(len(machine.image.code) + 1, np.uint8)
        logged[list(accesses)] = 1
        events = np.zeros(MAX_EVENTS, layout.EVENT)
        state = machine.state[0]
        group = None if cta is None else self.grouping.of(cta)[0]
        first, last = (0, self.grouping.number) if group is None else (group, group + 1)
        if first and machine.run(0, first, self.budget) != layout.DONE:
            return Trace()  # it does not get there
        addresses = np.empty(LANES * MAX_EVENTS, np.int64)  # what is not touched takes no memory
        state["trace"], state["trace_room"], state["trace_pcs"] = address_of(events), MAX_EVENTS, address_of(logged)
        state["trace_addresses"] = address_of(addresses)
        hot.drop(machine)
        machine.run(first, last, self.budget)
        count = int(state["trace_count"])
        found = events[:count].view(np.int64).reshape(-1, events.itemsize // 8).tolist()
        made = [
            _event(layout.EVENT_KINDS[kind], *machine.actor(group, warp), *rest) for kind, group, warp, *rest in found
        ]
        if cta is not None and self.grouping.members > 1:
            made = [event for event in made if event.cta == cta]
        return Trace(made, count <= MAX_EVENTS, addresses=addresses[: int(state["trace_used"])].copy())


_ASYNCHRONOUS = frozenset(layout.EVENT_KINDS[layout.EVENT_KINDS.index("init") :])


def _event(kind: EventKind, *fields: int) -> Event:
    """An event from what the VM logged: of a barrier operation the place tells the lanes, too."""
    cta, warp, interval, pc, place, generation, lanes, addresses, amount = fields
    if kind in ("arrive", "sync"):
        return Event(kind, cta, warp, interval, pc, place & 0xFF, generation, place >> 8)
    if kind in _ASYNCHRONOUS:
        return Event(kind, cta, warp, interval, pc, place, generation, lanes, -1, amount)
    return Event(kind, cta, warp, interval, pc, place, generation, lanes, addresses if lanes else -1)


def run(
    program: Program,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    rows: Rows,
    segments: list[tuple[Bytes, bool]],
    **options: Any,
) -> Outcome:
    """Run a launch on the VM; parameters as of `Launch`."""
    return Launch(program, grid, block, rows, segments, **options).run()


def _merge(program: Program, machines: list[Machine], outcomes: list[Outcome], budget: int) -> Outcome:
    """One outcome, as if the CTAs had run in order: what came after a stop is left out.  `budget`: warp instructions
    that all CTAs may execute."""
    stopped = next((k for k, o in enumerate(outcomes) if o.status != "done"), len(outcomes) - 1)
    machines, outcomes = machines[: stopped + 1], outcomes[: stopped + 1]
    result = outcomes[-1]
    if len(outcomes) > 1:
        known: dict[tuple[str, int, int], RawFinding] = {}
        for finding in (f for o in outcomes for f in o.findings):
            first = known.setdefault((finding.code, finding.pc, finding.other_pc), finding)
            if first is not finding:
                first.count += finding.count
        result.findings = list(known.values())
    _count(program, machines, result)
    if result.warp_instructions > budget and result.status == "done":
        result.status = "budget"
    return result


def _count(program: Program, machines: list[Machine], result: Outcome) -> None:
    """Executions of each instruction from the counts at the places where control arrived."""
    n = len(program.code)
    count, lanes = [0] * (n + 1), [0] * (n + 1)
    columns_of = [_sum([m.flow[name] for m in machines]).tolist() for name in ("count", "lanes")]
    for pc, (came, lanes_came, length) in enumerate(zip(*columns_of, machines[0].flow["length"].tolist(), strict=True)):
        if came:
            count[pc] += came
            lanes[pc] += lanes_came
            count[pc + length] -= came
            lanes[pc + length] -= lanes_came
    accesses = np.stack([_sum([m.accesses[name] for m in machines]) for name in _COUNTS], axis=1)
    if result.status != "done":
        for pc, mask in machines[-1].unfinished(result.status):
            end = pc + int(machines[-1].flow["length"][pc])
            for total, n_ in ((count, 1), (lanes, mask.bit_count())):
                total[pc] -= n_
                total[end] += n_
    result.executions = [*itertools.accumulate(count[:n])]
    result.warp_instructions = sum(result.executions)
    result.thread_operations = sum(itertools.accumulate(lanes[:n]))
    for pc in accesses[:, 0].nonzero()[0].tolist():
        own = 2 * int(machines[0].accesses["pattern"][pc])
        count_of = result.accesses[pc] = AccessCount(*accesses[pc].tolist())
        count_of.worst_wavefronts, count_of.worst_sectors = _worst(machines, own), _worst(machines, own + 1)


def _sum(tables: list[npt.NDArray[np.int64]]) -> npt.NDArray[np.int64]:
    total: npt.NDArray[np.int64] = tables[0] if len(tables) == 1 else np.sum(tables, axis=0)
    return total


def _worst(machines: list[Machine], number: int) -> Pattern | None:
    """The costliest execution that any machine kept, of the first CTA that has it."""
    kept = [m.patterns[number] for m in machines if m.patterns["cost"][number]]
    if not kept:
        return None
    worst = max(kept, key=lambda pattern: (int(pattern["cost"]), -int(pattern["cta"])))
    cost, cta, lanes, _ = worst.tolist()
    groups = machines[0].grouping
    cta = groups.cta(*divmod(cta, groups.members))
    addresses = [at if lanes >> lane & 1 else 0 for lane, at in enumerate(worst["addresses"].tolist())]
    segment = max(addresses) >> SEGMENT_SHIFT
    bits = machines[0].window if segment == SHARED and groups.members > 1 else SEGMENT_SHIFT
    offsets = tuple(at & (1 << bits) - 1 for at in addresses)
    return Pattern(cost, cta, segment, lanes, offsets)


_COUNTS = ("executions", "lanes", "shared", "ideal_shared", "sectors", "ideal_sectors", "uncounted")
"""fields of `ACCESS` that count, in the order of `AccessCount`"""
assert ROW == LANES * 8
