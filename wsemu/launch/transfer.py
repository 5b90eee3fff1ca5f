"""`check_transfer` runs one transfer of a pattern and checks each byte; `plan` returns the steps of a transfer.

A small kernel runs the pattern once between global memory and all of dynamic shared memory.  Each word of its source
has a different number, so each received word shows its origin.  The pattern is an argument of that kernel: patterns
that differ only in sizes, strides and threads share one compiled program.
"""

from __future__ import annotations

import functools
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from wsemu.language import cuda_names as cuda
from wsemu.language import ptx_names as ptx
from wsemu.launch.kernel import Kernel, jit
from wsemu.model import settings
from wsemu.model.arch import DEFAULT, limits
from wsemu.model.effects import find_names
from wsemu.model.errors import UsageError, hide_internal_frames
from wsemu.model.isa import NAMES, OPERATIONS, access_shape
from wsemu.model.launch_shape import configure
from wsemu.model.own import HARNESS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wsemu.evidence.places import Places
    from wsemu.launch.result import Report
    from wsemu.model.finding import Finding
    from wsemu.model.outcome import Stored
    from wsemu.model.program import Program

BLANK = 0
"""contents of a destination before the transfer, different from every word of a source"""
COPIES = find_names(lambda row: row.moves.agent and row.moves.writes != "")
"""asynchronous operations that write memory"""
_GAP = 32
"""number of bytes by which a row of the matrix is longer than a row of its tile"""
_COLUMN, _ROW = 16, 1
"""position of a tile in the matrix: bytes from the start of a row, and number of rows above the tile"""
_GUARD = 64
"""bytes on both sides of the memory that a transfer touches, a multiple of every alignment"""
Bytes = npt.NDArray[np.uint8]


@functools.lru_cache(maxsize=16)
def _body(two_phase: bool, indexed: bool, scatter: bool) -> Kernel:
    """Return the device function that runs a pattern once; the options are compile-time constants of the function."""

    def run(pattern, src, dst, index, first_src, first_dst):  # type: ignore[no-untyped-def]
        tile = cuda.shared.array(0, np.uint32, 16)
        thread, threads = cuda.threadIdx.x, cuda.blockDim.x
        computes = pattern.first_compute_thread <= thread < pattern.first_compute_thread + pattern.compute_threads
        initial = src if scatter else dst
        for byte in range(16 * thread, 4 * tile.size, 16 * threads):
            ptx.st_bytes(tile, byte, ptx.ld_bytes(initial, byte, 16))
        cuda.syncthreads()
        if pattern.specialized and computes:
            pattern.start_async_dma()
            pattern.wait_for_dma_finish()
        elif pattern.owns_this_thread():
            source = tile[first_src:] if scatter else src[first_src:]
            destination = dst[first_dst:] if scatter else tile[first_dst:]
            if two_phase:
                registers = cuda.local.array(pattern.register_bytes, np.uint8, 16)
                if indexed:
                    pattern.start_xfer_async(source, registers, index)
                    pattern.wait_xfer_finish(source, destination, registers, index)
                else:
                    pattern.start_xfer_async(source, registers)
                    pattern.wait_xfer_finish(source, destination, registers)
            elif indexed:
                pattern.execute_dma(source, destination, index)
            else:
                pattern.execute_dma(source, destination)
        if not pattern.specialized:
            cuda.syncthreads()
        if computes and not scatter:
            first = 16 * (thread - pattern.first_compute_thread)
            for byte in range(first, 4 * tile.size, 16 * pattern.compute_threads):
                ptx.st_bytes(dst, byte, ptx.ld_bytes(tile, byte, 16))

    return jit(run, device=True)


@functools.lru_cache(maxsize=2)
def _tile_body(two_phase: bool) -> Kernel:
    """Return the device function that runs a pattern once for a tile of a matrix with a tensor map."""

    def run(pattern, tmap, dst, column, row, first_dst):  # type: ignore[no-untyped-def]
        tile = cuda.shared.array(0, np.uint32, 1024)
        thread, threads = cuda.threadIdx.x, cuda.blockDim.x
        computes = pattern.first_compute_thread <= thread < pattern.first_compute_thread + pattern.compute_threads
        for byte in range(16 * thread, 4 * tile.size, 16 * threads):
            ptx.st_bytes(tile, byte, ptx.ld_bytes(dst, byte, 16))
        cuda.syncthreads()
        if pattern.specialized and computes:
            pattern.start_async_dma()
            pattern.wait_for_dma_finish()
        elif pattern.owns_this_thread():
            if two_phase:
                registers = cuda.local.array(pattern.register_bytes, np.uint8, 16)
                pattern.start_xfer_async(tmap, registers, column, row)
                pattern.wait_xfer_finish(tmap, tile[first_dst:], registers, column, row)
            else:
                pattern.execute_dma(tmap, tile[first_dst:], column, row)
        if not pattern.specialized:
            cuda.syncthreads()
        if computes:
            first = 16 * (thread - pattern.first_compute_thread)
            for byte in range(first, 4 * tile.size, 16 * pattern.compute_threads):
                ptx.st_bytes(dst, byte, ptx.ld_bytes(tile, byte, 16))

    return jit(run, device=True)


@functools.lru_cache(maxsize=64)
def _tile_kernel(pattern: Any, two_phase: bool) -> Kernel:
    """Return the kernel that transfers a tile; if a pattern is given, it is compiled into the kernel."""
    run = _tile_body(two_phase)

    def transfer(tmap, dst, column, row, first_dst):  # type: ignore[no-untyped-def]
        run(pattern, tmap, dst, column, row, first_dst)

    def transfer_tile(pattern, tmap, dst, column, row, first_dst):  # type: ignore[no-untyped-def]
        run(pattern, tmap, dst, column, row, first_dst)

    return jit(transfer_tile if pattern is None else transfer)


@functools.lru_cache(maxsize=16)
def _with_values(two_phase: bool, indexed: bool, scatter: bool) -> Kernel:
    """Return the kernel that takes the pattern as an argument."""
    run = _body(two_phase, indexed, scatter)

    def transfer(pattern, src, dst, index, first_src, first_dst):  # type: ignore[no-untyped-def]
        run(pattern, src, dst, index, first_src, first_dst)

    return jit(transfer)


@functools.lru_cache(maxsize=64)
def _with_constants(pattern: Any, two_phase: bool, indexed: bool, scatter: bool) -> Kernel:
    """Return the kernel into which the pattern is compiled."""
    run = _body(two_phase, indexed, scatter)

    def transfer(src, dst, index, first_src, first_dst):  # type: ignore[no-untyped-def]
        run(pattern, src, dst, index, first_src, first_dst)

    return jit(transfer)


@dataclass(frozen=True, slots=True)
class TransferCase:
    """One transfer as a value, which `wsemu.strategies` generates and `check_transfer` runs.

    Converted to text, a case is the call that creates it.
    """

    pattern: Any
    index: Any = None
    """the indices of an indirect transfer, a sequence of ints"""
    src_offset: int = 0
    """bytes from a 16-byte boundary to the beginning of the transfer in the source"""
    dst_offset: int = 0
    """bytes from a 16-byte boundary to the beginning of the transfer in the destination"""
    two_phase: bool = False
    """true to run `start_xfer_async` and `wait_xfer_finish` instead of `execute_dma`"""
    constants: bool = False
    """true to compile the pattern's numbers into the kernel instead of passing them"""

    def __repr__(self) -> str:
        return format_call(self)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Print the case for Hypothesis and IPython, which would print every field."""
        printer.text(format_call(self))


def format_call(value: Any) -> str:
    """Return a dataclass as the call that creates it, without default values."""
    if not is_dataclass(value):
        return repr(value.tolist() if isinstance(value, np.ndarray) else value)
    said = []
    for part in fields(value):
        given = getattr(value, part.name)
        if part.default is MISSING or isinstance(given, np.ndarray) or given != part.default:
            said.append(f"{part.name}={format_call(given)}")
    return f"{type(value).__name__}({', '.join(said)})"


@dataclass(frozen=True, slots=True)
class Job:
    """A transfer to be run: its position in the source and destination arrays, and the bytes that it should move."""

    case: TransferCase
    index: npt.NDArray[Any] | None
    moves: Sequence[tuple[int, int, int]]
    """(offset in the source, offset in the destination, bytes), counted from the beginning of the transfer"""
    first_src: int
    """byte of the source array at which the transfer begins"""
    first_dst: int
    sizes: tuple[int, int]
    """bytes of source and destination"""
    pitch: int = 0
    """distance between rows of the source matrix in bytes, if the kernel gets a tensor map of it; otherwise 0"""

    @property
    def pattern(self) -> Any:
        return self.case.pattern

    @property
    def scatter(self) -> bool:
        """True if the transfer goes from shared to global memory."""
        return bool(getattr(self.pattern, "scatter", False))

    @property
    def kernel(self) -> Kernel:
        if self.pitch:
            return _tile_kernel(self.pattern if self.case.constants else None, self.case.two_phase)
        options = self.case.two_phase, self.index is not None, self.scatter
        return _with_constants(self.pattern, *options) if self.case.constants else _with_values(*options)

    def arguments(self, src: npt.NDArray[Any], dst: npt.NDArray[Any]) -> tuple[Any, ...]:
        index = np.zeros(1, np.int64) if self.index is None else self.index
        rest: tuple[Any, ...] = (src, dst, index, self.first_src // 4, self.first_dst // 4)
        if self.pitch:
            rest = (self.pattern.tensor_map(self.matrix(src)), dst, _COLUMN // 4, _ROW, self.first_dst // 4)
        return rest if self.case.constants else (self.pattern, *rest)

    def matrix(self, src: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the matrix that contains the tile: its rows have `pitch` bytes, the tile is at _ROW and _COLUMN."""
        first = (self.first_src - _ROW * self.pitch - _COLUMN) // 4
        words = src[first:]
        return words[: len(words) * 4 // self.pitch * (self.pitch // 4)].reshape(-1, self.pitch // 4)

    def threads(self) -> int:
        """Return the number of threads of the CTA."""
        p = self.pattern
        return int(max(p.first_dma_thread + p.dma_threads, p.first_compute_thread + p.compute_threads))

    @property
    def shared_bytes(self) -> int:
        return self.sizes[0] if self.scatter else self.sizes[1]

    def image(self, src: Bytes) -> tuple[Bytes, Bytes]:
        """Return the expected contents of the destination, and how often each of its bytes should be written: once
        inside the transfer, never outside it."""
        made, times = np.full(self.sizes[1], BLANK, np.uint8), np.zeros(self.sizes[1], np.uint8)
        for a, b, size in self.moves:
            made[self.first_dst + b : self.first_dst + b + size] = src[self.first_src + a : self.first_src + a + size]
            times[self.first_dst + b : self.first_dst + b + size] = 1
        return made, times

    def from_pattern(self, program: Program, pc: int) -> bool:
        """Return whether an instruction belongs to the pattern, not to the kernel around it."""
        return program.spans[program.span_of[pc]].file != HARNESS


def job(case: TransferCase) -> Job:
    """Lay out the transfer of `case` in arrays; raise UsageError if its parts do not fit together."""
    pattern, index = case.pattern, case.index
    if isinstance(pattern, type):
        raise UsageError(f"`{pattern.__name__}` is a class: give an object of it, `{pattern.__name__}(...)`")
    if hasattr(pattern, "pattern"):
        raise UsageError(f"{type(pattern).__name__} fill buffers by turns: give the pattern itself, `.pattern`")
    if not hasattr(pattern, "moves") or not hasattr(pattern, "transfer"):
        raise UsageError(
            f"{type(pattern).__name__} does not say what it transfers: write `moves()`, a list of (offset in the "
            "source, offset in the destination, bytes), and `transfer(self, thread, src, dst)`"
        )
    if case.two_phase and not hasattr(pattern, "prefetch"):
        raise UsageError(f"{type(pattern).__name__} has no two phases: leave out two_phase=True")
    indexed = index is not None or hasattr(pattern, "dense_bytes")
    if indexed and not hasattr(pattern, "dense_bytes"):
        raise UsageError(f"index is given, but {type(pattern).__name__} takes none: leave it out")
    pitch = pattern.row_bytes + _GAP if hasattr(pattern, "tensor_map") else 0
    given = (_check_indices(pattern, index),) if indexed else (pitch,) if pitch else ()
    moves = pattern.moves(*given)
    if not isinstance(moves, (list, tuple)):
        raise UsageError(f"moves() gives a {type(moves).__name__}: give a list, with a tuple for each run of bytes")
    for move in moves:
        if not isinstance(move, (list, tuple)) or len(move) != 3 or move[2] < 0:
            raise UsageError(f"moves() has {move!r}: give (offset in the source, offset in the destination, bytes)")
    places = []
    alignments = getattr(pattern, "alignment", 4), getattr(pattern, "tile_alignment", getattr(pattern, "alignment", 4))
    before = max(_GUARD, _ROW * pitch + _COLUMN), max(_GUARD, alignments[1])
    for name, offset, end in (("src_offset", case.src_offset, 0), ("dst_offset", case.dst_offset, 1)):
        alignment = alignments[end]
        if offset < 0 or offset % alignment:
            near = -(-max(offset, 0) // alignment) * alignment
            raise UsageError(f"{name} is {offset}: give a multiple of alignment, {alignment} bytes, such as {near}")
        low = min((move[end] for move in moves), default=0)
        high = max((move[end] + move[2] for move in moves), default=0)
        first = _round_up(max(-low, 0)) + before[end] + offset
        places.append((first, _round_up(first + max(high, 0)) + _GUARD))
    (first_src, src_size), (first_dst, dst_size) = places
    made = None if index is None else np.ascontiguousarray(index)
    return Job(case, made, moves, first_src, first_dst, (src_size + _GAP * (pitch > 0), dst_size), pitch)


def _check_indices(pattern: Any, index: Any) -> npt.NDArray[Any]:
    """Return the indices as an array; raise UsageError if they do not fit the pattern."""
    if index is None:
        raise UsageError(f"index is missing: give index=, {pattern.elements} numbers of elements")
    made = np.asarray(index)
    if not made.size:
        made = made.astype(np.int64)
    if made.dtype.kind not in "iu" or made.ndim != 1:
        raise UsageError(f"index is of {made.dtype} with {made.ndim} dimensions: give a one-dimensional array of ints")
    if len(made) < pattern.elements:
        raise UsageError(f"index has {len(made)} numbers: give one for each of the {pattern.elements} elements")
    if len(made) and made.min() < 0:
        raise UsageError(f"index has {made.min()}: give numbers of elements, from 0")
    return made


def _round_up(size: int) -> int:
    return -(-size // 16) * 16


@dataclass(slots=True)
class Run:
    """A job and its arrays: filled at first, with the results after the launch."""

    job: Job
    src: Bytes
    dst: Bytes
    before: Bytes = field(init=False)
    """the contents of the source before the launch"""

    def __post_init__(self) -> None:
        self.before = self.src.copy()

    def arguments(self) -> tuple[Any, ...]:
        return self.job.arguments(self.src.view(np.uint32), self.dst.view(np.uint32))

    def again(self, plane: int, arch: str) -> Run:
        """Run the job again.  Every byte of the source has the value of byte `plane` (0, 1 or 2) of its own position,
        counted from 1."""
        run = fill(self.job, plane)
        launch(run, arch, settings.current())
        return run

    def accesses(self, places: Places) -> list[tuple[int, str, int]]:
        """Return (instruction, `load` or `store`, bytes a lane) of the pattern's accesses to shared and global memory
        that were executed."""
        program = places.program
        found: list[tuple[int, str, int]] = []
        for pc, access in places.outcome.accesses.items():
            name = NAMES[int(program.code[pc, 0])]
            if (access.wavefronts or access.sectors) and self.job.from_pattern(program, pc):
                found.append((pc, OPERATIONS[name].kind, access_shape(name)[1]))
        return found

    def copies(self, places: Places) -> list[int]:
        """Return the pattern's asynchronous copies that were executed."""
        program, executions = places.program, places.outcome.executions
        names = enumerate(NAMES[op] for op in program.code[:, 0].tolist())
        return [pc for pc, name in names if name in COPIES and executions[pc] and self.job.from_pattern(program, pc)]

    def stores(self) -> list[Stored]:
        """Run the job on the reference interpreter, and return every lane's stores and asynchronous copies of the
        pattern."""
        from wsemu.launch.binding import bind
        from wsemu.launch.compiled import compile_for_types
        from wsemu.model.outcome import Stored, TraceRequest
        from wsemu.reference import run as reference

        job, arguments = self.job, fill(self.job).arguments()
        program, names, _ = compile_for_types(job.kernel, arguments, settings.current().fma)
        rows, memory, _ = bind(program, arguments, names)
        outcome = reference.run(
            program, (1, 1, 1), (job.threads(), 1, 1), rows, memory.segments, dynamic_shared=job.shared_bytes,
            races=False, recycling=False, initialised=False, trace=TraceRequest(stores=True),
        )  # fmt: skip
        assert outcome.trace is not None
        copied = [
            Stored(e.pc, e.cta, e.warp, e.lanes.bit_length() - 1, e.place, e.amount)
            for e in outcome.trace.events if e.kind == "copy"
        ]  # fmt: skip
        return [store for store in (*outcome.trace.stores, *copied) if job.from_pattern(program, store.pc)]

    def __str__(self) -> str:
        return format_call(self.job.case)


def fill(job: Job, plane: int | None = None) -> Run:
    """Return a job with filled arrays: every word of the source has its position as value, from 1 (below 2**32).  If
    `plane` is given, every byte has the value of byte `plane` (0, 1 or 2) of its own position, counted from 1."""
    if plane is None:
        src = np.arange(1, job.sizes[0] // 4 + 1, dtype=np.uint32).view(np.uint8)
    else:
        src = (np.arange(1, job.sizes[0] + 1) >> 8 * plane & 0xFF).astype(np.uint8)
    return Run(job, src, np.full(job.sizes[1], BLANK, np.uint8))


@hide_internal_frames
def check_transfer(
    pattern: Any,
    *,
    index: Any = None,
    src_offset: int = 0,
    dst_offset: int = 0,
    two_phase: bool = False,
    constants: bool = False,
    arch: str | None = None,
    engine: settings.Engine | None = None,
) -> Report:
    """Run one transfer of a pattern with all checks, and check that every byte of its destination is written exactly
    once, with the corresponding byte of the source, and that nothing else is written.

    `pattern` is one of `wsemu.patterns`, or a `CudaDMACustom` with `moves()`; `index` has the indices of an indirect
    transfer.  The transfer begins `src_offset` and `dst_offset` bytes after a 16-byte boundary.  `two_phase` runs
    `start_xfer_async` and `wait_xfer_finish` instead of `execute_dma`; `constants` compiles the pattern's numbers as
    constants instead of passing them.  A `TransferCase` holds all of these: pass it alone, instead of the pattern.
    Raise UsageError if a transfer does not fit into shared memory.
    """
    case = pattern
    if not isinstance(pattern, TransferCase):
        case = TransferCase(pattern, index, src_offset, dst_offset, two_phase, constants)
    elif index is not None or src_offset or dst_offset or two_phase or constants:
        raise UsageError(
            "a TransferCase has its own index, offsets, phases and constants: change it with `dataclasses.replace`"
        )
    work = job(case)
    chosen = settings.current()
    if engine is not None:
        chosen = replace(chosen, engine=engine)
    from wsemu.checkers import transfer

    _check_room(work, arch)
    run = fill(work)
    return launch(run, arch, chosen, lambda places: transfer.examine(run, places))


def _check_room(job: Job, arch: str | None) -> None:
    """Raise UsageError if the transfer does not fit into shared memory, before its arrays are created."""
    most = limits(settings.current().arch if arch is None else arch).shared
    if job.shared_bytes > most:
        raise UsageError(
            f"the transfer takes {job.shared_bytes:,} bytes of shared memory, {2 * _GUARD} of them around it: at most "
            f"{most:,}; give fewer or smaller elements, or smaller strides"
        )


def launch(
    run: Run, arch: str | None, chosen: settings.Settings, more: Callable[[Places], list[Finding]] | None = None
) -> Report:
    """Launch a job, and return the report; `more` adds findings."""
    from wsemu.launch.check import examine

    configuration = configure(1, run.job.threads(), 0, run.job.shared_bytes, arch=arch)
    return examine(run.job.kernel, configuration, run.arguments(), chosen, more=more)


# -- plan ------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Plan:
    """The steps and costs of a transfer; converted to text, a table."""

    pattern: Any
    parts: tuple[dict[str, Any], ...]
    """parts that are distributed over the threads separately (a halo has two): method, number of elements, bytes of an
    element, lanes on each element, elements at a time, steps"""
    loads: dict[int, int]
    """bytes of a lane's access -> number of warp-wide loads"""
    stores: dict[int, int]
    sectors: int
    """sectors of global memory that are transferred"""
    ideal_sectors: int
    wavefronts: int
    """wavefronts of shared memory; bulk copies have none because they are not accesses of warps"""
    ideal_wavefronts: int
    copies: dict[int, int] = field(default_factory=dict)
    """bytes of an asynchronous copy -> number of copies of this size: warp-wide `cp.async`, or bulk copies"""
    cycles: float = 0.0
    """predicted cycles of the transfer by one CTA on an H200, from L2; 0: not requested"""

    @property
    def steps(self) -> int:
        """The number of steps of all parts."""
        return int(sum(part["steps"] for part in self.parts))

    def __str__(self) -> str:
        p = self.pattern
        what = f"{p.alignment}-byte accesses, {p.register_bytes} bytes per thread in each step"
        if p.asynchronous:
            what = "bulk copies" if p.bulk else f"{p.alignment}-byte copies"
        lines = [f"{type(p).__name__}: {p.dma_threads} DMA threads, {what}"]
        header = ["way", "elements", "bytes", "lanes", "at a time", "steps"]
        rows = [[str(part[name]) for name in header] for part in self.parts]
        widths = [max(len(row[n]) for row in [header, *rows]) for n in range(len(header))]
        for row in [header, *rows]:
            cells = [text.rjust(width) for text, width in zip(row, widths, strict=True)]
            lines.append("  ".join(["", row[0].ljust(widths[0]), *cells[1:]]))
        kinds = [("copies", self.copies)] if self.copies else [("loads", self.loads), ("stores", self.stores)]
        for kind, counts in kinds:
            text = ", ".join(f"{n:,} of {width:,} bytes" for width, n in sorted(counts.items()))
            lines.append(f"  {kind:<10} {text}{', by one thread' if p.bulk else ' per lane, counted by warps'}")
        lines.append(f"  {'sectors':<10} {self.sectors:,}, ideal {self.ideal_sectors:,}")
        if not p.bulk:
            lines.append(f"  {'wavefronts':<10} {self.wavefronts:,}, ideal {self.ideal_wavefronts:,}")
        if self.cycles:
            lines.append(f"  {'time':<10} {self.cycles:,.0f} cycles from L2, predicted for an H200")
        return "\n".join(lines)


def plan(pattern: Any, arch: str = DEFAULT) -> Plan:
    """Return the plan of a transfer whose source and destination begin at 16-byte boundaries; if it is indirect, its
    indices ascend from 0."""
    if not hasattr(pattern, "parts"):
        raise UsageError(f"{type(pattern).__name__} has no plan: only the patterns that CudaDMA has know how they go")
    index = np.arange(pattern.elements) if hasattr(pattern, "dense_bytes") else None
    work = job(TransferCase(pattern, index))
    if pattern.bulk:
        return _bulk_plan(work)
    if pattern.asynchronous:  # a copy accesses the same bytes as a load and a store
        made = plan(replace(pattern, engine="warps"), arch)
        return replace(made, pattern=pattern, copies=made.loads, loads={}, stores={})
    run = fill(work)
    loads: dict[int, int] = {}
    stores: dict[int, int] = {}
    costs = [0, 0, 0, 0]

    def count(places: Places) -> list[Finding]:
        for pc, kind, size in run.accesses(places):
            access = places.outcome.accesses[pc]
            counts = loads if kind == "load" else stores
            if places.program.array_of[pc] == "index":
                continue
            counts[size] = counts.get(size, 0) + access.executions
            for n, cost in enumerate(
                (access.sectors, access.ideal_sectors, access.wavefronts, access.ideal_wavefronts)
            ):
                costs[n] += cost
        return []

    launch(run, arch, settings.current(), count)
    parts = tuple(
        {
            "way": way,
            "elements": part.elements,
            "bytes": part.element_bytes,
            "lanes": part.lanes,
            "at a time": part.together(),
            "steps": part.steps(),
        }
        for way, part in pattern.parts()
    )
    sectors, ideal_sectors, wavefronts, ideal_wavefronts = costs
    return Plan(pattern, parts, loads, stores, sectors, ideal_sectors, wavefronts, ideal_wavefronts)


_SECTOR = 32
"""size of a sector, in bytes"""


def _bulk_plan(work: Job) -> Plan:
    """Return the plan of a pattern with bulk copies: one thread starts the copies of all elements in turn."""
    copies: dict[int, int] = {}
    sectors, ideal = 0, 0
    if work.pitch:
        return _tile_plan(work)
    for a, b, size in work.moves:
        first = work.first_dst + b if work.scatter else work.first_src + a
        copies[size] = copies.get(size, 0) + 1
        sectors += (first + size - 1) // _SECTOR - first // _SECTOR + 1
        ideal += -(-size // _SECTOR)
    parts = tuple(
        {
            "way": "bulk", "elements": part.elements, "bytes": part.element_bytes, "lanes": 1,
            "at a time": part.elements, "steps": 1,
        }
        for _, part in work.pattern.parts()
    )  # fmt: skip
    return Plan(work.pattern, parts, {}, {}, sectors, ideal, 0, 0, copies)


def _tile_plan(work: Job) -> Plan:
    """Return the plan of a tile, which a single bulk copy transfers; the tile's rows begin at multiples of a sector."""
    p = work.pattern
    (way, part), *_ = p.parts()
    row = {"way": way, "elements": 1, "bytes": part.element_bytes, "lanes": 1, "at a time": 1, "steps": 1}
    sectors = p.rows * -(-p.row_bytes // _SECTOR)
    return Plan(p, (row,), {}, {}, sectors, sectors, 0, 0, {part.element_bytes: 1})
