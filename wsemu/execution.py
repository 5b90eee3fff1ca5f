"""Runs a program on the VM: lays out registers and memory, calls the compiled code, collects what it left behind."""

from __future__ import annotations

import functools
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from wsemu import layout, native
from wsemu.bytecode import (
    FIRST_ARRAY,
    LANES,
    LOCAL,
    NAMES,
    OPCODE,
    OPERATIONS,
    ROW,
    SEGMENT_SHIFT,
    SHARED,
    SIZE,
    Program,
    access_shape,
    flow_lengths,
    memory_shape,
)
from wsemu.codes import CODE_NAMES
from wsemu.layout import BAD_INDEX, READ_ONLY, WRAPPED, address_of, aligned
from wsemu.outcome import AccessCount, BarrierState, Outcome, RawFinding, Status, WarpState

Rows = dict[int, tuple[str, int | float | bool]]
"""register row -> (type, value): what a launch puts into parameter rows"""
Bytes = npt.NDArray[np.uint8]
SLICE = 20_000_000
"""warp instructions between two looks at the outside world (about a tenth of a second)"""
RAW_CAPACITY = 512
PARALLEL_THREADS = 1 << 16
"""threads of a launch from which its CTAs are spread over the cores"""
STATUS: dict[int, Status] = {
    layout.DONE: "done",
    layout.DEADLOCK: "deadlock",
    layout.BUDGET: "budget",
    layout.FAULT: "fault",
    layout.TRAP: "trap",
    layout.PARKING: "parking",
    layout.STACK_OVERFLOW: "stack",
}
_DTYPE = {"b8": "u1", "b16": "u2", "b32": "u4", "b64": "u8", "f16": "f2", "f32": "f4", "f64": "f8"}


def _auxiliary() -> npt.NDArray[np.int64]:
    """opcode -> aux of a memory operation (bytes a lane, elements << 8, log2 of the bytes << 16), -1 for others."""
    table = np.full(len(NAMES), -1, np.int64)
    for name, operation in OPERATIONS.items():
        if operation.kind in ("load", "store", "atomic"):
            n = memory_shape(name)[2] if operation.kind != "atomic" else 1
            size = access_shape(name)[1]
            table[OPCODE[name]] = size | n << 8 | (size.bit_length() - 1) << 16
    return table


_AUXILIARY = _auxiliary()
ATOMIC_NUMBERS = [OPCODE[name] for name, operation in OPERATIONS.items() if operation.kind == "atomic"]


@dataclass(frozen=True, slots=True)
class Image:
    """What depends on the program alone: its code as the VM reads it, segment lengths, a warp's register block."""

    code: npt.NDArray[np.int64]
    flow: npt.NDArray[Any]
    registers: Bytes
    has_atomics: bool


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


@functools.lru_cache(maxsize=512)
def _image_of(key: ProgramKey) -> Image:
    program = key.program
    code = np.ascontiguousarray(program.code, np.int64).copy()
    auxiliary = _AUXILIARY[code[:, 0]]
    code[:, 7] = np.where(auxiliary >= 0, auxiliary, code[:, 7])
    n = len(code)
    flow = np.zeros(n + 1, layout.FLOW)
    flow["length"][:n] = flow_lengths(code)
    registers = aligned(program.register_bytes)
    registers[:4] = 255
    for row, type_, value in program.constants:
        fill(registers, row, type_, value)
    return Image(code, flow, registers, bool(np.isin(code[:, 0], ATOMIC_NUMBERS).any()))


class ProgramKey:
    """A program by identity, for caches."""

    __slots__ = ("program",)

    def __init__(self, program: Program) -> None:
        self.program = program

    def __hash__(self) -> int:
        return id(self.program)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ProgramKey) and other.program is self.program


def special_values(program: Program, grid: tuple[int, ...], block: tuple[int, ...], dynamic: int) -> dict[str, Any]:
    """Name of a special register -> its value for each thread of a CTA (or one value for all); ctaid is not among
    them."""
    threads = block[0] * block[1] * block[2]
    thread = np.arange(-(-threads // LANES) * LANES)
    static = -(-program.shared_bytes // 16) * 16
    values: dict[str, Any] = {
        "tid.x": thread % block[0],
        "tid.y": thread // block[0] % block[1],
        "tid.z": thread // (block[0] * block[1]),
        "laneid": thread % LANES,
        "shared": SHARED << SEGMENT_SHIFT,
        "dynamic": (SHARED << SEGMENT_SHIFT) + static,
        "dynamic_bytes": dynamic,
        "local": (LOCAL << SEGMENT_SHIFT) + thread % LANES * program.local_bytes,
    }
    for axis, (blocks, extent) in enumerate(zip(grid, block, strict=True)):
        values[f"nctaid.{'xyz'[axis]}"] = blocks
        values[f"ntid.{'xyz'[axis]}"] = extent
    return values


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
    ) -> None:
        image = _image_of(ProgramKey(program))
        self.program = program
        self.image = image
        threads = block[0] * block[1] * block[2]
        self.warp_count = count = -(-threads // LANES)
        self.state = np.zeros(1, layout.MACHINE)
        self._lay_out_registers(rows, grid, block, dynamic)
        shared_bytes = -(-program.shared_bytes // 16) * 16 + dynamic
        local_bytes = program.local_bytes * LANES
        # one block for all small tables: arrays of two threads must not share cache lines
        self.flow = image.flow.copy()
        self.accesses = np.zeros(len(image.code) + 1, layout.ACCESS)
        self.warps = np.zeros(count, layout.WARP)
        self.barriers = np.zeros(layout.BARRIERS, layout.BARRIER)
        self.raw = np.zeros(RAW_CAPACITY, layout.RAW)
        self.stacks = np.zeros((count, 2, layout.STACK), layout.ENTRY)
        self.scratch = np.zeros(layout.SCRATCH, np.int64)
        shared_room, local_room = -(-shared_bytes // 8) * 8, -(-local_bytes // 8) * 8
        self.shared = aligned(2 * shared_room)
        self.local = aligned(2 * local_room * count)
        self.segments = np.zeros(FIRST_ARRAY + len(segments), layout.SEGMENT)
        self.segments[SHARED] = (
            address_of(self.shared),
            shared_bytes,
            1,
            address_of(self.shared) + shared_room,
            shared_bytes,
        )
        self.segments[LOCAL] = (0, local_bytes, 1, 0, 0)
        for number, (data, writable) in enumerate(segments, FIRST_ARRAY):
            self.segments[number] = (address_of(data), data.nbytes, writable, 0, 0)
        self._keep = segments
        self._lay_out_warps(local_room)
        self._fill_state(grid, threads, shared_room, local_room)

    def _lay_out_registers(self, rows: Rows, grid: tuple[int, ...], block: tuple[int, ...], dynamic: int) -> None:
        program, size = self.program, self.program.register_bytes
        self.registers = aligned(self.warp_count * size).reshape(self.warp_count, size)
        self.registers[:] = self.image.registers
        for row, (type_, value) in rows.items():
            fill(self.registers, row, type_, value)
        if not program.specials:
            return
        values = special_values(program, grid, block, dynamic)
        for name, row in program.specials.items():
            if name not in values:
                continue
            dtype = "i8" if name in ("shared", "dynamic", "dynamic_bytes", "local") else "i4"
            place = self.registers[:, row : row + LANES * np.dtype(dtype).itemsize].view(dtype)
            value = values[name]
            place[...] = value.reshape(self.warp_count, LANES) if isinstance(value, np.ndarray) else value

    def _lay_out_warps(self, local_room: int) -> None:
        order = np.arange(self.warp_count)
        warps = self.warps
        warps["registers"] = address_of(self.registers) + order * self.program.register_bytes
        warps["stack"] = address_of(self.stacks) + order * self.stacks[0].nbytes
        warps["parked_entries"] = warps["stack"] + self.stacks[0, 0].nbytes
        if local_room:
            warps["local_host"] = address_of(self.local) + order * 2 * local_room
            warps["local_initialised"] = warps["local_host"] + local_room

    def _fill_state(self, grid: tuple[int, ...], threads: int, shared_room: int, local_room: int) -> None:
        state = self.state[0]
        self.entry, parts = native.compiled()
        specials = self.program.specials
        fields = {
            **parts,
            "address": address_of(self.state),
            "code": address_of(self.image.code),
            "instructions": len(self.image.code),
            "segments": address_of(self.segments),
            "segment_count": len(self.segments),
            "warps": address_of(self.warps),
            "warp_count": self.warp_count,
            "block_threads": threads,
            "register_bytes": self.program.register_bytes,
            "grid": grid,
            "cta_rows": [specials.get(f"ctaid.{axis}", -1) for axis in "xyz"],
            "flow": address_of(self.flow),
            "accesses": address_of(self.accesses),
            "shared_host": address_of(self.shared),
            "shared_bytes": shared_room,
            "shared_initialised": address_of(self.shared) + shared_room,
            "local_bytes": local_room,
            "scratch": address_of(self.scratch),
            "raw": address_of(self.raw),
            "raw_capacity": RAW_CAPACITY,
            "fault_pc": -1,
            "barriers": address_of(self.barriers),
        }
        for name, value in fields.items():
            state[name] = value

    def run(self, first: int, last: int, budget: int, stop: threading.Event | None = None) -> int:
        """Run CTAs first to last - 1; returns the status.  Looks up between slices, so that Ctrl-C gets through."""
        state, address = self.state[0], address_of(self.state)
        state["cta"], state["cta_end"] = first, last
        while True:
            piece = min(budget, SLICE)
            state["budget"] = piece
            status = self.entry(address)
            budget -= piece - max(int(state["budget"]), 0)
            if status != layout.BUDGET or budget <= 0 or (stop is not None and stop.is_set()):
                return status

    def outcome(self, status: int) -> Outcome:
        state = self.state[0]
        result = Outcome(STATUS[status], [_raw_finding(r) for r in self.raw[: int(state["raw_count"])]])
        if status != layout.DONE:
            result.cta = int(state["cta"])
            result.fault_pc, result.fault_warp = int(state["fault_pc"]), int(state["fault_warp"])
            result.warps = [_warp_state(w, warp) for w, warp in enumerate(self.warps)]
            result.barriers = [_barrier_state(n, b) for n, b in enumerate(self.barriers) if b["arrived"]]
        return result


def _warp_state(number: int, warp: Any) -> WarpState:
    waits = int(warp["waits"]) if warp["alive"] else -1
    return WarpState(number, int(warp["wait_pc"] if waits >= 0 else warp["last_pc"]), int(warp["alive"]), waits)


def _barrier_state(number: int, barrier: Any) -> BarrierState:
    generation, arrived, expected = (int(barrier[name]) for name in ("generation", "arrived", "expected"))
    now, before = (int(barrier[name]) for name in ("warps", "last_warps"))
    return BarrierState(number, generation, arrived, expected, _bits(now), _bits(before))


def _bits(mask: int) -> list[int]:
    return [n for n in range(64) if mask >> n & 1]


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
}


def _raw_finding(raw: Any) -> RawFinding:
    code = CODE_NAMES[int(raw["code"])]
    values = raw["detail"].tolist()
    detail = {name: value for name, value in zip(_DETAIL[code], values, strict=False) if name}
    if code == "out-of-bounds":
        kind = detail.pop("kind")
        detail["wrapped"], detail["readonly"] = int(kind == WRAPPED), int(kind == READ_ONLY)
        if kind == BAD_INDEX:
            detail["index"] = detail.pop("address")
    return RawFinding(
        code, int(raw["pc"]), int(raw["cta"]), int(raw["warp"]), int(raw["lanes"]),
        int(raw["other_pc"]), int(raw["other_warp"]), detail, int(raw["count"]),
    )  # fmt: skip


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run(
    program: Program,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    rows: Rows,
    segments: list[tuple[Bytes, bool]],
    *,
    dynamic_shared: int = 0,
    budget: int = 1_000_000_000,
    workers: int | None = None,
) -> Outcome:
    """Run a launch on the VM.

    `rows` are the parameter rows, `segments` the bytes of each array with whether it may be written, `budget` the warp
    instructions after which the run ends.  A large launch without atomics spreads its CTAs over `workers` threads
    (default: the cores); the outcome is the same.
    """
    ctas = grid[0] * grid[1] * grid[2]
    arguments = (program, grid, block, rows, segments, dynamic_shared)
    first = Machine(*arguments)
    if workers is None:
        large = ctas * block[0] * block[1] * block[2] >= PARALLEL_THREADS and not first.image.has_atomics
        workers = min(cores(), ctas) if large else 1
    if workers == 1:
        status = first.run(0, ctas, budget)
        return _merge(program, [first], [first.outcome(status)], budget)
    machines = [first, *(Machine(*arguments) for _ in range(workers - 1))]
    bounds = [ctas * k // workers for k in range(workers + 1)]
    stop = threading.Event()
    with ThreadPoolExecutor(workers) as pool:
        futures = [pool.submit(m.run, bounds[k], bounds[k + 1], budget, stop) for k, m in enumerate(machines)]
        try:
            statuses = [future.result() for future in futures]
        except BaseException:
            stop.set()
            raise
    return _merge(program, machines, [m.outcome(s) for m, s in zip(machines, statuses, strict=True)], budget)


def _merge(program: Program, machines: list[Machine], outcomes: list[Outcome], budget: int) -> Outcome:
    """One outcome, as if the CTAs had run in order: what came after a stop is left out."""
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
    count, lanes = np.zeros(n + 1, np.int64), np.zeros(n + 1, np.int64)
    accesses = np.zeros((n + 1, 4), np.int64)
    for m in machines:
        came = np.flatnonzero(m.flow["count"])
        ends = came + m.flow["length"][came]
        for total, column in ((count, "count"), (lanes, "lanes")):
            np.add.at(total, came, m.flow[column][came])
            np.subtract.at(total, ends, m.flow[column][came])
        accesses += m.accesses.view(np.int64).reshape(-1, 4)
    executions = np.cumsum(count)[:n]
    result.executions = executions.tolist()
    result.warp_instructions = int(executions.sum())
    result.thread_operations = int(np.cumsum(lanes)[:n].sum())
    for pc in np.flatnonzero(accesses[:, 0]).tolist():
        result.accesses[pc] = AccessCount(*accesses[pc].tolist())


assert ROW == LANES * 8
