"""Bind a launch to its arguments, and run it on an engine."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.launch.arguments import find_arrays, is_blank, underlying_array
from wsemu.launch.binding import Packed, bind, part_name, stored_segments
from wsemu.launch.cancellation import Plan, list_responses, plan_clusters, requests_clusters
from wsemu.launch.code import Code
from wsemu.launch.compiled import compile_for_types
from wsemu.launch.heap import drop_sectors, holds_blocks, launch_heap
from wsemu.launch.hooks import advancing
from wsemu.launch.ranks import divide_grid, divide_program, note_python_atomics
from wsemu.launch.same import as_comparable
from wsemu.model.arch import DEFAULT, limits
from wsemu.model.bound import Allocated, Bound
from wsemu.model.device_array import device_offset
from wsemu.model.effects import find_opcodes
from wsemu.model.errors import UnsupportedError, UsageError
from wsemu.model.isa import BY_TEXTURE, FIRST_ARRAY, SEGMENT_SHIFT
from wsemu.model.residency import residency
from wsemu.proof.uniform import may_store_unequal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from wsemu.launch.compiled import Compiled
    from wsemu.model.bound import BoundArray
    from wsemu.model.device_memory import DeviceMemory
    from wsemu.model.finding import Residency
    from wsemu.model.launch_shape import LaunchConfiguration
    from wsemu.model.outcome import Outcome, Tracer
    from wsemu.model.program import Program
    from wsemu.model.settings import Settings


def bind_launch(
    kernel: Any,
    configuration: LaunchConfiguration,
    arguments: Sequence[Any],
    chosen: Settings,
    uninitialized: tuple[str, ...] = (),
    made: Compiled | None = None,
    part: int = 0,
    memory: DeviceMemory | None = None,
) -> tuple[Bound, tuple[str, ...]]:
    """Return a launch of the compiled kernel `made` that is ready to run, and the notes of the front end.  `part` is
    the number of bytes of the heap that each thread has; the launch is in a device `memory` if there is one."""
    source = None
    if isinstance(kernel, Code):
        kernel.admit(configuration)
        configuration = kernel.apply_cluster(configuration)
        source = kernel.source()
    made = made or compile_for_types(kernel, arguments, chosen.fma)
    bound = _bind_program(made, source, configuration, arguments, chosen, uninitialized, part, memory)
    if source is not None and bound[0].heap is None and holds_blocks(bound[0]):
        made = made._replace(program=kernel.program(arguments, chosen.fma, blocks=True))
        bound = _bind_program(made, source, configuration, arguments, chosen, uninitialized, part, memory)
    return bound


def _bind_program(
    made: Compiled,
    source: tuple[str, int, int] | None,
    configuration: LaunchConfiguration,
    arguments: Sequence[Any],
    chosen: Settings,
    uninitialized: tuple[str, ...],
    part: int,
    space: DeviceMemory | None,
) -> tuple[Bound, tuple[str, ...]]:
    """Bind the arguments of a launch to a compiled program."""
    program, names, notes = made
    if chosen.ranks > 1:
        notes = (*notes, *note_python_atomics(program)) if source is None else notes
        program, configuration = divide_program(program), divide_grid(configuration, chosen.ranks)
    if chosen.mma != "hardware":
        program, more = _with_sums(program, chosen.mma)
        notes = (*notes, *more)
    _check_shared(program, configuration)
    _check_cooperative(program, configuration)
    _check_pairs(program, configuration)
    needed = together(program, configuration, chosen.sms)
    if needed is not None and not needed.fits:
        raise UsageError(
            f"`{program.name}` {needed}, a whole {needed.of}: {needed.occupancy_text(configuration.arch)}; launch "
            "fewer CTAs, or smaller ones"
        )
    # the default architecture represents later ones as well
    if configuration.arch != DEFAULT or configuration.arch_chosen:
        from wsemu.model.introduced import check_instructions

        check_instructions(program, configuration.arch)
    heap = launch_heap(program, configuration, chosen.heap, part)
    given: dict[str, Any] = {} if heap is None else dict(heap.arrays)
    if requests_clusters(program):
        given |= list_responses(configuration)
    rows, memory, arrays = bind(program, arguments, names, given, space)
    blank = _segments(uninitialized, arrays, names, arguments) | _captured_segments(program, rows, arrays)
    if space is not None:
        blank |= space.layout().blank
    segments = memory.segments
    if blank and space is None:
        _mark_written(segments, arrays, blank, uninitialized, names, arguments)
    if source is not None:
        notes = (*notes, *_note_strides(program, arrays, names, arguments))
    return Bound(program, configuration, names, rows, segments, arrays, blank, chosen, source, heap, space), notes


def _note_strides(
    program: Program, arrays: Sequence[BoundArray], names: Sequence[str], arguments: Sequence[Any]
) -> Iterator[str]:
    """Yield a note for each argument of a PTX kernel that is an array with gaps between its elements, unless another
    argument is the stride, in bytes or elements."""
    numbers = {
        int.from_bytes(a.data, "little", signed=True)
        for a in arguments
        if isinstance(a, Packed) and len(a.data) in (4, 8)
    }
    passed = {names[p.argument] for p in program.parameters if p.part == "address"}
    for array in arrays:
        if array.name not in passed or math.prod(array.shape) <= 1:
            continue
        step = array.dtype.itemsize
        for extent, stride in zip(reversed(array.shape), reversed(array.strides), strict=True):
            if extent > 1 and stride != step and numbers.isdisjoint((stride, stride // array.dtype.itemsize)):
                yield (
                    f"`{array.name}` is not contiguous in C order (strides {array.strides}): the kernel gets the "
                    "address of its first element, and no strides; pass `np.ascontiguousarray(...)` to a kernel that "
                    "expects rows"
                )
                break
            step *= extent


def _mark_written(
    segments: list[Any],
    arrays: list[BoundArray],
    blank: frozenset[int],
    uninitialized: tuple[str, ...],
    names: Sequence[str],
    arguments: Sequence[Any],
) -> None:
    """Mark the bytes of device arrays that are initialized before the launch."""
    given = zip(names, arguments, strict=True)
    held = {
        part_name(name, path): underlying_array(array) for name, value in given for path, array in find_arrays(value)
    }
    for array in arrays:
        written = getattr(held.get(array.name), "written", None)
        data, writable = segments[array.segment - FIRST_ARRAY]
        if array.segment not in blank or written is None or not written.partial or writable is not True:
            continue
        offset, size = device_offset(held[array.name], data)
        if offset >= 0 and offset + data.size <= size:
            marks = written.part(offset, offset + data.size)
            found = np.flatnonzero(marks)
            hull = (int(found[0]), int(found[-1]) + 1) if found.size else (0, 0)
            segments[array.segment - FIRST_ARRAY] = data, Allocated(marks, hull=hull)


def _with_sums(program: Program, wanted: str) -> tuple[Program, tuple[str, ...]]:
    """Return the program with sums of matrices as requested, and the note about them."""
    from wsemu.model.sums import rounding_once

    if wanted != "exact":
        raise UsageError(f'no sums {wanted!r} of matrix instructions: mma="hardware" or mma="exact"')
    made = rounding_once(program)
    note = "sums of matrix instructions are rounded once (mma exact): those of a GPU may have other last bits"
    return made, () if made is program else (note,)


def _segments(
    wanted: tuple[str, ...], bound: list[BoundArray], names: Sequence[str], arguments: Sequence[Any]
) -> frozenset[int]:
    """Return the segments of the arrays with these names; an array that the kernel does not use has none."""
    if not wanted:
        return frozenset()
    known = {array.name: array.segment for array in bound}
    given = zip(names, arguments, strict=True)
    unused = {part_name(name, way) for name, value in given for way, _ in find_arrays(value)} - known.keys()
    for name in wanted:
        if name not in known and name not in unused:
            arrays = ", ".join([*known, *sorted(unused)])
            raise UsageError(f"uninitialized names {name!r}: the kernel's arrays are {arrays or 'none'}")
    return frozenset(known[name] for name in wanted if name in known)


def _captured_segments(program: Program, rows: dict[int, Any], bound: list[BoundArray]) -> frozenset[int]:
    """Return the segments of uninitialized arrays that the program captures, or to which its variables point."""
    if not program.constant_arrays:
        return frozenset()
    unwritten = [c for c in program.constant_arrays if is_blank(c.array) or c.heap == "bytes"]
    blank = {int(rows[c.row][1]) >> SEGMENT_SHIFT for c in unwritten}
    pointed = [array for c in program.constant_arrays for _, array in c.pointers]
    last = bound[len(bound) - len(pointed) :]  # `bind` puts these after all others
    return frozenset(blank | {own.segment for own, array in zip(last, pointed, strict=True) if is_blank(array)})


def together(program: Program, configuration: LaunchConfiguration, sms: int) -> Residency | None:
    """Return the residency that a cooperative launch or a launch with clusters needs; None for other launches."""
    if program.cooperative:
        return residency(program, configuration, configuration.ctas, "grid", sms) if configuration.ctas > 1 else None
    x, y, z = configuration.cluster
    return residency(program, configuration, x * y * z, "cluster", sms) if x * y * z > 1 else None


_OF_GRIDS = find_opcodes(lambda row: row.reach == "grid")
_OF_CLUSTERS = find_opcodes(lambda row: row.reach == "cluster")


def _check_cooperative(program: Program, configuration: LaunchConfiguration) -> None:
    """Raise UnsupportedError for a cooperative launch in clusters."""
    if not program.cooperative:
        return
    asks = any(name.startswith(("cluster", "nclusterid")) for name in program.specials)
    if asks or configuration.cluster != (1, 1, 1) or not _OF_CLUSTERS.isdisjoint(program.opcodes):
        meets = next(pc for pc, op in enumerate(program.code[:, 0].tolist()) if op in _OF_GRIDS)
        raise UnsupportedError(
            f"`{program.name}` meets in the grid and in clusters: cooperative launches in clusters are not modelled",
            program.spans[program.span_of[meets]],
            "launch it without clusters, or let it meet in these alone",
        )


def _check_pairs(program: Program, configuration: LaunchConfiguration) -> None:
    """Raise UsageError for operations of pairs of CTAs in a launch without pairs."""
    x, y, z = configuration.cluster
    if program.has_pairs and x * y * z % 2:
        raise UsageError(
            f"`{program.name}` has `tcgen05` operations of `cta_group::2`, and its clusters have {x * y * z} CTAs: "
            "launch it in clusters of an even number of CTAs"
        )


def _check_shared(program: Program, configuration: LaunchConfiguration) -> None:
    limit = limits(configuration.arch)
    static, dynamic = program.shared_bytes, configuration.dynamic_shared
    if static > limit.static_shared:
        arrays = ", ".join(f"`{a.name}`" for a in program.shared)
        raise UsageError(
            f"`{program.name}` declares {static:,} bytes of shared memory ({arrays}): at most "
            f"{limit.static_shared:,} on {configuration.arch}; make the arrays smaller, or use dynamic shared memory: "
            "`cuda.shared.array(0, dtype)`"
        )
    if static + dynamic > limit.shared:
        raise UsageError(
            f"{static:,} bytes of static and {dynamic:,} of dynamic shared memory: at most "
            f"{limit.shared:,} together on {configuration.arch}"
        )


Ran = tuple["Outcome", "Tracer", "Callable[[], list[Any]]"]
"""the outcome; a function that traces the same run and counts how often some instructions are executed; a function that
returns the initial contents of the arrays"""


class Expected:
    """Locations at which lanes may conflict, according to earlier runs of similar launches."""

    def __init__(self) -> None:
        self.suspects: Any = None
        self.apart = False
        """true if part of a warp executed a barrier in an earlier run"""


def ran(
    bound: Bound,
    workers: int | None,
    budget: int | None = None,
    only: tuple[int, ...] = (),
    *,
    strict: bool = False,
    converged: bool = False,
    values: bool = False,
    alone: int = 0,
    joined: frozenset[int] = frozenset(),
    maps: tuple[tuple[int, int], ...] = (),
    first_granule: int = 0,
    plan: Plan | None = None,
    expected: Expected | None = None,
) -> Ran:
    """Run a launch.  `budget` replaces the launch's own; `only` lists the CTAs to run, by default all; `strict` also
    reports several lanes that store one value; `converged` treats lanes of an operation on a phase as one.  On the
    reference engine, `values` distinguishes stores of one value from other races.  On the VM, if several lanes store
    the same bytes by a bulk operation, only the lane `alone` performs it, counted from 1.  `joined` are plain stores
    that conflict with every access, except that two of them may store the same value.  `maps` are arrays that show
    which bytes of a segment are written.  `first_granule` is the block of 32 columns of tensor memory at which the
    search for an allocation starts.  `plan` selects the clusters that requests cancel.  Where the suspects are
    `expected`, the VM runs once instead of twice; it adds further suspects."""
    checks = _list_checks(bound, strict, converged, first_granule, plan)
    if bound.settings.engine == "vm":
        checks.update(alone=alone, joined=joined, maps=maps)
        return _run_on_vm(bound, workers, budget, only, checks, expected or Expected())
    if bound.settings.engine == "reference":
        return _run_on_reference(bound, budget, values, checks)
    raise UsageError(f'no engine {bound.settings.engine!r}: "vm" or "reference"')


_OF_ACCESSES = frozenset(("race", "intra-warp"))
_OF_PROXIES = _OF_ACCESSES | {"proxy"}
"""checkers that need shadow memory, in a program with asynchronous operations"""


def _list_checks(bound: Bound, strict: bool, converged: bool, first_granule: int, plan: Plan | None) -> dict[str, Any]:
    """Return the checks and choices of a run, as both engines name them."""
    program, chosen = bound.program, bound.settings
    races = not chosen.checkers.isdisjoint(_OF_PROXIES if program.asynchronous else _OF_ACCESSES)
    strict = strict or chosen.strict or chosen.every
    planned = plan or plan_clusters(program, bound.configuration, chosen.clc, chosen.sms)
    return {
        "races": races,
        "recycling": "recycling" in chosen.checkers,
        "initialised": "initialised" in chosen.checkers,
        "read_only": "read-only" in chosen.checkers,
        "lockstep": chosen.lockstep,
        "converged": converged,
        "init_fences": True,
        "other_lanes": True,
        "strict": races and (strict or may_store_unequal(program, lockstep=chosen.lockstep)),
        "uninitialized": bound.uninitialized,
        "successors": planned.successors,
        "starting": planned.starting,
        "first_granule": first_granule,
    }


def _list_sizes(bound: Bound, budget: int | None) -> dict[str, Any]:
    """Return the sizes and limits of a run, as both engines name them."""
    configuration = bound.configuration
    sizes: dict[str, Any] = {
        "dynamic_shared": configuration.dynamic_shared,
        "budget": budget or bound.settings.budget,
        "arch": configuration.arch,
    }
    if bound.group != (1, 1, 1):
        sizes |= {"shape": bound.group, "clusters": configuration.cluster != (1, 1, 1)}
    return sizes


def _run_on_vm(
    bound: Bound, workers: int | None, budget: int | None, only: tuple[int, ...], watched: dict[str, Any],
    expected: Expected,
) -> Ran:  # fmt: skip
    """Run a launch on the VM.  `watched` are the fields of `Watch` besides the stored segments."""
    from wsemu.machine.run import Launch
    from wsemu.machine.tables import Watch

    program, configuration, chosen = bound.program, bound.configuration, bound.settings
    stored = stored_segments(program, bound.arrays)
    guessed = stored is None and bound.memory is not None and "stores_anywhere" not in program.derived
    if guessed:  # addresses from memory usually lead to few allocations
        stored = frozenset(array.segment for array in bound.arrays if array.name in bound.names)
    if expected.suspects:
        watched |= {"suspects": expected.suspects, "apart": expected.apart, "tentative": True}
    run = Launch(
        program, configuration.grid, configuration.block, bound.rows, bound.segments, **_list_sizes(bound, budget),
        workers=_workers(bound) if workers is None else workers, descending=chosen.cta_order == "descending",
        watch=Watch(stored=stored, **watched), only=only, each=_advance(program.name),
    )  # fmt: skip
    outcome = run.run()
    expected.suspects, expected.apart = run.watch.suspects, run.watch.apart
    if guessed and run.watch.stored is None:
        program.derived["stores_anywhere"] = True
    outcome = _adjust_counts(bound, outcome if outcome.written else as_comparable(program, outcome))
    program.derived["work"] = outcome.warp_instructions // (len(only) or configuration.ctas)
    return outcome, run.trace, run.initial


def _run_on_reference(bound: Bound, budget: int | None, values: bool, checks: dict[str, Any]) -> Ran:
    """Run a launch on the reference engine; with `values`, distinguish stores of one value from other races."""
    from wsemu.model.outcome import Trace, TraceRequest
    from wsemu.reference import run as reference

    program, configuration = bound.program, bound.configuration
    everything = TraceRequest(frozenset(range(len(program.code))))
    before = [data.copy() for data, _ in bound.segments]
    outcome = reference.run(
        program, configuration.grid, configuration.block, bound.rows, bound.segments, **_list_sizes(bound, budget),
        **checks, trace=None if values else everything, values=values,
    )  # fmt: skip
    outcome = _adjust_counts(bound, outcome)
    whole = outcome.trace or Trace()
    return outcome, whole.part, lambda: before


def _adjust_counts(bound: Bound, outcome: Outcome) -> Outcome:
    """Return the outcome without sectors of the heap, and of textures, which have their own caches and layouts."""
    program = bound.program
    if bound.heap is not None:
        drop_sectors(bound, bound.heap, outcome)
    if "of_textures" not in program.derived:
        program.derived["of_textures"] = np.flatnonzero(program.code[:, 7] & BY_TEXTURE).tolist()
    for pc in program.derived["of_textures"]:
        if pc in outcome.accesses:
            count = outcome.accesses[pc]
            count.sectors = count.ideal_sectors = 0
            count.worst_sectors = None
    return outcome


def _advance(name: str) -> Callable[[int, int], None] | None:
    """Return a function that reports the launch's progress to observers; None if there are none."""
    if not advancing:
        return None

    def tell(done: int, total: int) -> None:
        for advance in advancing:
            advance(name, done, total)

    return tell


MUCH_WORK, MUCH_MEMORY = 400_000, 1 << 23
"""warp instructions, and bytes of arrays, from which on several cores share the CTAs: about 20 ms"""


def _workers(bound: Bound) -> int | None:
    """Return the number of cores that share the CTAs of a long launch; None lets the engine decide by the number of
    threads.

    The work is estimated from the kernel's last launch, or else from the size of the arrays.
    """
    ctas = bound.configuration.ctas
    if ctas == 1:
        return None
    work = bound.program.derived.get("work")
    large = sum(data.nbytes for data, _ in bound.segments) >= MUCH_MEMORY if work is None else work * ctas >= MUCH_WORK
    if not large:
        return None
    from wsemu.machine.workers import cores

    return min(cores(), ctas)
