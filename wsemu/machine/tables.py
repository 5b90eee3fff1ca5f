"""The memory of one VM: its tables, their sizes, and their contents before a launch."""

from __future__ import annotations

import functools
import mmap
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.machine import build as native
from wsemu.machine import slices
from wsemu.machine import state as layout
from wsemu.machine.image import (
    CLC_REQUEST,
    MAP_ACQUIRE,
    MAP_RELEASE,
    OF_WARPGROUPS,
    TENSOR_FENCE,
    TENSOR_MEMORY,
    Rows,
    fill,
    grouping_of,
    image_of,
    local_variables,
    special_values,
)
from wsemu.machine.matrix.shapes import BUFFER, shapes
from wsemu.machine.matrix.tensor_shapes import SCRATCH_BYTES, tensor_shapes
from wsemu.machine.memory.cell_bits import INTERVALS, UNNAMED, WIDTHS
from wsemu.machine.memory.joined_sides import EVEN, ODD
from wsemu.machine.memory.shadow_planes import POOL, Planes
from wsemu.machine.outside import Objects
from wsemu.machine.parts import needed_parts
from wsemu.machine.state import UNUSED_SHIFT, address_of, aligned_bytes, sparse_zeros
from wsemu.model.arch import ARCHS, DEFAULT
from wsemu.model.bound import NO_MEMORY, Allocated, InElements
from wsemu.model.data import dataclass, replace
from wsemu.model.effects import ASYNCHRONOUS_PROXY
from wsemu.model.errors import UnsupportedError, UsageError
from wsemu.model.grid import Grouping, window
from wsemu.model.isa import (
    CLOSED,
    FIRST_ARRAY,
    IN_ARRAY,
    IN_CONSTANT,
    IN_LOCAL,
    IN_PIECES,
    IN_SHARED,
    LANES,
    LOCAL,
    N_MEMORY,
    N_OPERATIONS,
    SHARED,
    UNWATCHED,
)
from wsemu.model.outcome import MOST_FINDINGS, Outcome
from wsemu.model.program import Program
from wsemu.model.tensor_memory import WORDS

if TYPE_CHECKING:
    import numpy.typing as npt

    from wsemu.machine.image import Bytes
    from wsemu.machine.memory.shadow_planes import Suspects
    from wsemu.machine.tier.hot import Placed, Tier, Wanted
    from wsemu.machine.tier.section_tables import Sections

SLOTS = 1 << 15
"""size of the hash table of findings, which may fill half of it"""


MAX_EVENTS = 1_000_000
"""maximum events of a trace"""


_needed = functools.lru_cache(maxsize=256)(needed_parts)


@dataclass(frozen=True, slots=True)
class Watch:
    """Checks that are enabled while a launch runs."""

    races: bool = True
    recycling: bool = True
    initialised: bool = True
    lockstep: bool = False
    """the lanes of a warp execute together, as before sm_70"""
    converged: bool = False
    """lanes of one operation at an mbarrier count as converged: in time, each follows all that any of them did"""
    alone: int = 0
    """lane, counted from 1, that alone performs a bulk operation if several store the same bytes; 0: all do"""
    init_fences: bool = False
    """check for fences between the initialization of an mbarrier and copies that complete bytes on it"""
    other_lanes: bool = False
    """findings about phases name the lane of the earlier operation"""
    strict: bool = False
    """also report correct uses that look like mistakes, as notes"""
    stored: frozenset[int] | None = None
    """numbers of the array segments that are expected to be written; None: any. A store to another array restarts the
    launch, so that this selects only where to check for races"""
    uninitialized: frozenset[int] = frozenset()
    """numbers of the array segments whose bytes count as uninitialized"""
    read_only: bool = True
    """true if data that is loaded through the read-only cache must not be written"""
    suspects: Suspects | None = None
    """locations at which lanes may conflict according to an earlier run: this run decides"""
    tentative: bool = False
    """the suspects are those of another launch: this run also records locations that are not among them"""
    first_granule: int = 0
    """granule of 32 columns of tensor memory at which the search for an allocation begins"""
    successors: tuple[int, ...] = ()
    """for each cluster, the one whose launch is canceled after it: see `sync/cancellation.py`"""
    starting: int = 0
    """number of groups of CTAs that start by themselves, from the first one on; 0: all"""
    apart: bool = False
    """in an earlier run, part of a warp executed a barrier: each lane has its own clock from the start"""
    named: bool = False
    """record the instruction of each read: see `memory/readers.py`"""
    windowed: bool = False
    """each CTA is expected to write arrays beyond the locations of its predecessors, see `shadow.note_range`"""
    ordered: frozenset[int] = frozenset()
    """instructions that wait until the host lets a lane perform them: see `memory/ordered.py`"""
    joined: frozenset[int] = frozenset()
    """plain stores that conflict with everything except each other's stores of the same value: see
    `memory/joined.py`"""
    maps: tuple[tuple[int, int], ...] = ()
    """pairs (array, segment): instead of the array's contents, the launch reads which bytes of the segment are
    initialized, as 1 or 0. The map of local memory is at `special_values`' `local_map`. CTAs must not communicate"""


@dataclass(frozen=True, slots=True)
class Rooms:
    """Capacity for the state of asynchronous operations."""

    agents: int = 1 << 14
    """maximum agents in a CTA"""
    bits: int = 1
    """number of sets of 2,048 agents in flight"""
    mbarriers: int = 64
    """maximum mbarriers in a CTA"""
    maps: int = 64
    """maximum maps that lanes have acquired"""

    def more(self, wanted: int, most: int) -> Rooms:
        """Return more room for the full table, up to `most` agents; raise UsageError if that is too much."""
        if wanted == layout.GROW_AGENTS:
            grown = replace(self, agents=4 * self.agents)
        elif wanted == layout.GROW_BITS:
            grown = replace(self, bits=4 * self.bits)
        elif wanted == layout.GROW_MAPS:
            grown = replace(self, maps=4 * self.maps)
        else:
            grown = replace(self, mbarriers=4 * self.mbarriers)
        if grown.mbarriers > 1 << 16:
            raise UsageError("a CTA initializes more mbarriers than can be distinguished")
        if grown.maps > 1 << 16:
            raise UsageError(
                "more threads acquire tensor maps than can be distinguished: acquire each in one thread of a CTA"
            )
        if grown.agents > most or grown.bits > 1 << 8:
            raise UsageError(
                "a CTA has too many asynchronous operations that not all its threads wait for: launch less work a CTA"
            )
        return grown


def _take_pooled(n: int, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return a table of n zeroed records, in pooled memory if possible: to get fresh memory takes longer than a small
    launch."""
    cells = n * dtype.itemsize // 8
    return POOL.take(cells)[:cells].view(dtype)


def give_back(table: npt.NDArray[Any], used: int) -> None:
    """Return a `_take_pooled` table to the pool; at most its first `used` records were touched."""
    cells = table.base
    assert isinstance(cells, np.ndarray)
    POOL.give(cells, 0, used * table.itemsize // 8)


class Tables:
    """Tables of one VM in memory, for a range of CTAs."""

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
        """Create the tables for at most `most` CTAs; None: all.

        CTAs of a group, which has this shape, are co-resident; in `clusters`, they access each other's shared memory.
        """
        self.rooms = rooms or Rooms()
        self.grouping = groups = grouping_of(grid, shape)
        self.clusters = clusters
        self._start_without_block()
        image = image_of(program)
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
        self.window = (
            0
            if groups.members == 1
            else window(shared_bytes, asynchronous=program.asynchronous, columns=program.uses_columns)
        )
        self._lay_out_registers(rows, block, dynamic)
        local_bytes = program.local_bytes * LANES
        self._allocate_tables(count)
        before = (groups.members - 1) << self.window
        """bytes of shared memory before the memory of a group's last CTA"""
        shared_room, local_room = -(-shared_bytes // 8) * 8, -(-local_bytes // 8) * 8
        self.shared = aligned_bytes(2 * (before + shared_room))
        self.local = aligned_bytes(2 * local_room * count)
        self.variables = local_variables(program)
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
        self._forget_runs()

    def _start_without_block(self) -> None:
        """Start without a compiled block."""
        self.tier: Tier = "off"
        self.executed = 0
        self.repeats: Any = None
        """warp instructions of the current run so far, slice by slice"""
        self.work = self.worth = 0
        """likewise for the launch as a whole; and the value from which a block is profitable"""
        self.permits: npt.NDArray[Any] | None = None
        """see tier/permits.py"""
        self.sections: Sections | None = None
        """see tier/sections.py"""
        self.ahead: npt.NDArray[np.int64] | None = None
        """address of each warp's last loads, see tier/accesses.py"""
        self.blocks: npt.NDArray[np.int64] | None = None
        """entry points of its block, by instruction"""
        self.block: Placed | None = None
        """the block in use, if any"""
        self.wanted: Wanted | None = None
        """the program's block, or the request for the one that it waits for"""

    def _allocate_tables(self, warps: int) -> None:
        """Allocate the tables whose sizes depend on the program and on the number of warps."""
        image, groups = self.image, self.grouping
        # one block for all small tables: arrays of two threads must not share cache lines
        self.flow = image.flow.copy()
        self.accesses = image.accesses.copy()
        accesses = int(self.accesses["pattern"].max()) + 1
        self.patterns = np.zeros(2 * accesses, layout.PATTERN)
        self.weighed = np.zeros(accesses, layout.WEIGHED)
        self.plans, self.plans_due = np.zeros(accesses, layout.PLAN), np.zeros(accesses, layout.PLAN_DUE)
        self.warps = layout.table(warps, layout.WARP)
        self.barriers = layout.table(groups.members * layout.BARRIERS, layout.BARRIER)
        self.ctas = layout.table(groups.members, layout.CTA)
        self.raw = _take_pooled(MOST_FINDINGS, layout.RAW)
        self.slots = _take_pooled(SLOTS, layout.SLOT)
        self.stacks = np.zeros((warps, 2, layout.STACK_ROOM), layout.ENTRY)
        self.scratch = np.zeros(layout.SCRATCH, np.int64)
        self.lanes_scratch = np.zeros(128, np.int64)

    def _forget_runs(self) -> None:
        """Reset what earlier runs left."""
        self.key: Any = None
        """key under which the machine is kept for the next launch of its kind; None: it is not kept"""
        self.left = 0
        """remaining budget of its last run"""
        self.status = layout.DONE
        """status of its last run"""
        self.goes_on = False
        """true if tables and intervals continue those of the previous launch"""
        self._renewed = False
        """true if they were restored after it"""
        self._first_of_groups: list[tuple[Any, Any]] = []
        """tables that its launches continue, each with a copy of its first contents"""
        self.number = 0
        """index of the worker that used it: the next worker with this index reuses the memory that it has touched"""
        self.alone: dict[int, int] = {}
        """first interval of each group that ran alone, in the order of the runs"""
        self._told: tuple[tuple[bytes, ...], Outcome] | None = None
        """contents of the tables after the last launch without findings, and its outcome"""

    def _lay_out_segments(self, segments: list[tuple[Bytes, bool]], shared_bytes: int, local_bytes: int) -> None:
        watch, table = self.watch, self.segments
        self._keep = segments
        self.maps: dict[int, Bytes] = {}
        """for each array with uninitialized bytes, a byte per byte: 1 if it is initialized"""
        self.marks: dict[int, Bytes] = {}
        """marks of the bytes of each writable array; see `read_only.py`"""
        marks = watch.read_only and self.image.has_read_only_loads
        table["grain"], table["low"] = -1, 1 << 40
        table[SHARED]["host"], table[SHARED]["bytes"], table[SHARED]["writable"] = (
            address_of(self.shared), shared_bytes, 1,
        )  # fmt: skip
        table[LOCAL]["bytes"], table[LOCAL]["writable"] = local_bytes, 1
        table["kind"], table[SHARED]["kind"], table[LOCAL]["kind"] = IN_ARRAY, IN_SHARED, IN_LOCAL
        if watch.races:
            table[SHARED]["tracked"] = layout.TRACKED
        for number, (data, writable) in enumerate(segments, FIRST_ARRAY):
            if data is NO_MEMORY:
                continue
            segment = table[number]
            segment["host"], segment["bytes"], segment["writable"] = address_of(data), data.nbytes, writable
            if not writable:
                segment["kind"] = IN_CONSTANT | CLOSED
            elif isinstance(writable, InElements):
                segment["kind"], segment["covered"] = IN_ARRAY | CLOSED, address_of(writable.covered)
            elif isinstance(writable, Allocated) and writable.covered is not None:
                segment["kind"], segment["covered"] = IN_ARRAY | IN_PIECES, address_of(writable.covered)
            if watch.races and writable and writable != UNWATCHED:
                expected = watch.stored is None or number in watch.stored
                segment["tracked"] = layout.TRACKED if expected else layout.READ_SO_FAR
            if marks and writable:
                self.marks[number] = aligned_bytes(data.nbytes)
                segment["marked"] = address_of(self.marks[number])
            if number in watch.uninitialized:
                written = self.maps[number] = np.zeros(data.nbytes + LANES, np.uint8)
                segment["initialised"], segment["unwritten"] = address_of(written), data.nbytes
                if isinstance(writable, Allocated) and writable.written is not None:
                    before = slice(*writable.hull)
                    written[before] = writable.written[before]
                    segment["unwritten"] -= np.count_nonzero(written[before])
        for array, number in watch.maps:
            shared, local = (address_of(block) for block in (self.shared, self.local))
            room = len(self.local) // (2 * self.warp_count)
            table[array]["host"], table[array]["bytes"] = {
                SHARED: (shared + len(self.shared) // 2, shared_bytes),
                LOCAL: (local + room, max(len(self.local) - room, 0)),
            }.get(number, (table[number]["initialised"], table[number]["bytes"]))

    def _lay_out_clocks(self, ctas: int) -> None:
        """Lay out clocks and shadow memory, if the launch needs them."""
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
            if TENSOR_MEMORY & self.image.opcodes:
                fences = TENSOR_FENCE in self.image.opcodes
                sets, state["tensor_fences"] = 7 if fences else 5, fences
        size = LANES * (vectors + sets * bits)
        rows = LANES * count + (layout.CTA_ROWS + 2) * members + 2
        if not self.image.opcodes.isdisjoint(OF_WARPGROUPS):
            state["group_rows"] = members * (self.cta_warps // 4) * layout.GROUP_ROWS
            rows += int(state["group_rows"])
        self.known = _lazy_zeros(rows * size)
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
            marks = watch.suspects is None or watch.tentative
            width = -(-count // LANES)
            size = int(state["shared_limit"])
            parts = [(cta << self.window, (cta << self.window) + size) for cta in range(members)] if size else []
            self.planes = Planes(
                self.segments, self.state, watch.suspects, width, watch.windowed, readers, marks, parts
            )

    def _lay_out_mbarriers(self) -> None:
        """Lay out the tables of mbarriers, asynchronous operations and their groups."""
        state, count, rooms = self.state[0], self.warp_count, self.rooms
        self.mbarriers = np.zeros(rooms.mbarriers, layout.MBARRIER)
        self.mbarrier_index = sparse_zeros(int(self.segments[SHARED]["bytes"]) // 8 + 2, np.int64)
        self.agents = np.zeros(rooms.agents, layout.AGENT)
        kinds = 6 if TENSOR_MEMORY & self.image.opcodes else 3
        self.groups = np.zeros(kinds * count * LANES, layout.GROUPS)
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
        state["asynchronous"], state["group_kinds"] = 1, kinds
        if CLC_REQUEST in self.image.opcodes:
            clusters = self.grouping.number
            self.successors = np.array(self.watch.successors or [clusters] * clusters, np.int64)
            state["successors"], state["successor_count"] = address_of(self.successors), clusters
        if kinds > 3:
            self._lay_out_columns()
        if max(self.image.opcodes) >= N_OPERATIONS:
            self._lay_out_objects()
        if state["clocks"]:
            self._lay_out_phases(256 * count, int(state["row_bytes"]))

    def _lay_out_columns(self) -> None:
        """Lay out tensor memory, and the accesses to it."""
        state, members = self.state[0], self.grouping.members
        self.columns = np.zeros((members, WORDS), np.int32)
        self.columns_written = np.zeros((members, WORDS), np.uint8)
        self.tensor_ctas = layout.table(members, layout.TENSOR_CTA)
        self.tensor_accesses = np.zeros(self.rooms.agents, layout.TENSOR_ACCESS)
        self.columns_scratch = aligned_bytes(SCRATCH_BYTES)
        self.product = layout.table(1, layout.PRODUCT)
        self.matrix = aligned_bytes(BUFFER)
        for name, table in (
            ("columns", self.columns), ("columns_written", self.columns_written), ("tensor_ctas", self.tensor_ctas),
            ("tensor_accesses", self.tensor_accesses), ("columns_scratch", self.columns_scratch),
            ("matrix", self.matrix), ("product", self.product), ("tensor_shapes", tensor_shapes()),
        ):  # fmt: skip
            state[name] = address_of(table)
        state["tensor_room"] = self.rooms.agents
        state["tensor_first"] = self.watch.first_granule

    def _lay_out_objects(self) -> None:
        """Lay out the tables of operations of other families."""
        state = self.state[0]
        if self.grouping.members > 1:
            raise UnsupportedError("objects from outside, in several CTAs at once")
        self.objects = Objects(self.image.opcodes, int(state["row_bytes"]))
        state["outside"], state["objects"] = address_of(self.objects.table), address_of(self.objects.block)
        state["objects_room"] = len(self.objects.block)

    def _lay_out_phases(self, thin: int, full: int) -> None:
        """Lay out the rows of each mbarrier, of these sizes, in a block of its own."""
        block = layout.THIN_ROWS * thin + layout.FULL_ROWS * full
        self.phases = sparse_zeros(len(self.mbarriers) * block // 8, np.int64)
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
        self.registers = aligned_bytes(self.warp_count * size).reshape(self.warp_count, size)
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
        """Lay out the tables of each CTA of a group."""
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
        parts, self.entry = native.load_parts(self._parts(), self.width), native.entry(self.width)
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
            "worn": INTERVALS.values[self.width] - slices.SLICES[self.width] - self.rooms.agents,
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
        """Give each joined store two more instruction numbers, for even and odd turns, so that cells distinguish joined
        stores from all others."""
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
        """Return the parts of the VM that this launch needs."""
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
        """Enter the costs of accesses on this architecture."""
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
            self.matrix = aligned_bytes(BUFFER)
            state["matrix"], state["matrix_shapes"] = address_of(self.matrix), address_of(shapes())
        state["patterns"], state["weighed"] = address_of(self.patterns), address_of(self.weighed)
        state["plans"], state["plans_due"] = address_of(self.plans), address_of(self.plans_due)
        state["shortcuts"] = N_MEMORY if model._replace(atomics=True) == ARCHS[DEFAULT].costs else 0
        state["planned"] = state["shortcuts"] if self.watch.races and not self.watch.joined else 0
        if self.clusters:
            state["shortcuts"] = 0


_THIN_ROWS = (
    "joined_pc", "used_pc", "reach", "cover", "waited", "waited_first", "waited_pc", "expects", "expects_pc",
    "pluses", "pluses_pc", "empties", "empties_pc", "held", "held_pc", "followed",
)  # fmt: skip


def width_of(groups: Grouping, cta_warps: int) -> int:
    """Return the width that a machine needs, as an index of WIDTHS."""
    warps = groups.members * cta_warps
    return next(width for width, most in enumerate(WIDTHS) if warps <= most)


def _lazy_zeros(n: int) -> npt.NDArray[np.int64]:
    """Return n zeros, few of which are accessed; for a large n, the system reserves no memory."""
    if 8 * n <= LARGE or not sys.platform.startswith("linux"):
        return POOL.take(n)
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE
    return np.frombuffer(mmap.mmap(-1, 8 * n, flags=flags), np.int64)


LARGE = 1 << 28
"""size of a large table, in bytes"""


_NO_RESERVE = 0x4000
"""MAP_NORESERVE of Linux"""
