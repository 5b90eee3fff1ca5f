"""Determine the bytes of global memory that a launch reads, writes and updates atomically.

`possible_accesses` costs nothing: it returns the arrays of the launch and what the executed instructions do to them.
`Footprint` runs the launch again, traced, to find the exact bytes and what its threads do about earlier launches.
Launches of one kernel with the same parameters share a footprint if array contents influence neither branches nor
addresses.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from wsemu.launch.dependents import Dependents, grid_operations, published_stores
from wsemu.model.data import NamedTuple
from wsemu.model.effects import effects_of
from wsemu.model.isa import (
    ADDRESS_WRAPPED,
    FIRST_ARRAY,
    NAMES,
    NO_STORE,
    NON_COHERENT,
    OFFSET_MASK,
    OPERATIONS,
    SEGMENT_SHIFT,
    access_shape,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from wsemu.evidence.places import Places
    from wsemu.model.bound import Bound
    from wsemu.model.outcome import Event, Trace, Tracer
    from wsemu.model.program import Program, Span

    Offsets = npt.NDArray[np.int64]

Visible = Literal["", "generic", "both"]
_VISIBLE: tuple[Visible, ...] = ("", "generic", "both")
_KINDS = {"load": "read", "store": "write", "atomic": "atomic"}
_KEPT, _ACCESSES = "footprints", "possible accesses"


class Touched(NamedTuple):
    """Bytes of one segment that one instruction touches, as ranges of offsets."""

    segment: int
    kind: str
    """`read`, `constant` (through the read-only cache), `write` or `atomic`"""
    part: str
    """`before` or `after` the wait for earlier launches; empty in a launch without such a wait"""
    starts: Offsets
    ends: Offsets
    at: Span
    visible: Visible = ""
    """proxies of later launches that see a write without a wait"""
    is_async: bool = False
    """True for the async proxy: copies"""


def access_kind(program: Program, pc: int) -> str | None:
    """Return the effect of an instruction on memory, or None."""
    name = NAMES[int(program.code[pc, 0])]
    kind = OPERATIONS[name].kind
    flags = int(program.code[pc, 7])
    if kind == "load" and flags & NON_COHERENT:
        return "constant"
    if kind == "atomic" and flags & NO_STORE:
        return "read"
    return _KINDS.get(kind)


def possible_accesses(bound: Bound, places: Places) -> dict[int, set[str]]:
    """Return the segments of arrays that a launch may touch, and how, from its executed instructions; from all, if its
    run was cut off."""
    program = places.program
    # a run that was cut off has not reached all instructions of a launch that is verified
    executions = places.outcome.executions if places.outcome.status == "done" else [1] * len(program.code)
    named = {array.name: array.segment for array in bound.arrays}
    if _ACCESSES not in program.derived:
        own = {array.name for array in (*program.shared, *program.locals)}
        table = [(pc, program.array_of[pc], _possible_kinds(program, pc)) for pc in range(len(program.code))]
        program.derived[_ACCESSES] = [one for one in table if one[2] and one[1] not in own]
    found: defaultdict[int, set[str]] = defaultdict(set)
    for pc, name, kinds in program.derived[_ACCESSES]:
        if executions[pc]:
            for segment in [named[name]] if name in named else named.values():
                found[segment] |= kinds
    return found


def _possible_kinds(program: Program, pc: int) -> set[str]:
    name = NAMES[int(program.code[pc, 0])]
    if OPERATIONS[name].kind == "async":
        return _copied_kinds(effects_of(name).moves)
    kind = access_kind(program, pc)
    return {kind} if kind else set()


def _copied_kinds(moves: Any) -> set[str]:
    return {kind for kind, side in (("read", moves.reads), ("write", moves.writes)) if side}


class Footprint:
    """The exact accesses of a launch, determined when they are first needed."""

    def __init__(self, bound: Bound, places: Places, tracer: Tracer) -> None:
        self._places, self._tracer = places, tracer
        self._segments = len(bound.segments)
        self._found: list[Touched] | None = None
        self._dependents: Dependents | None = None
        self._complete = places.outcome.status == "done"

    def accesses(self) -> list[Touched] | None:
        """Return the accesses; None if the run or its trace is incomplete."""
        self._run()
        return self._found if self._complete else None

    def dependents(self) -> Dependents | None:
        """Return what the threads do about earlier launches; None if the trace is incomplete."""
        self._run()
        return self._dependents if self._complete else None

    def _run(self) -> None:
        if self._found is not None or not self._complete:
            return
        places = self._places
        program = places.program
        pcs = frozenset(places.outcome.accesses) | grid_operations(program)
        trace = self._tracer(pcs)
        self._complete = trace.complete
        if self._complete:
            self._dependents = Dependents(program, places.cluster_index)
            self._found = _list_accesses(places, trace, self._segments, self._dependents)
        del self._tracer


def shared_footprint(bound: Bound, places: Places, tracer: Tracer) -> tuple[Footprint, object]:
    """Return the footprint of a launch and its key, which equal footprints share; None if array contents decide what
    the launch touches."""
    program = places.program
    if depends_on_contents(places):
        made = Footprint(bound, places, tracer)
        made.accesses()  # now: other launches and the host may change the arrays
        return made, None
    key = launch_key(bound, places)
    known: dict[Any, Footprint] = program.derived.setdefault(_KEPT, {})
    if key not in known:
        if len(known) >= MAX_KEPT:
            known.pop(next(iter(known)))
        known[key] = Footprint(bound, places, tracer)
    return known[key], key


def launch_key(bound: Bound, places: Places) -> tuple[Any, ...]:
    """Return a key that launches of one kernel with one shape and the same parameters have."""
    configuration = bound.configuration
    rows = tuple((row, value[0], _to_python(value[1])) for row, value in bound.rows.items())
    shape = (configuration.grid, configuration.block, configuration.dynamic_shared, configuration.cluster)
    return (id(places.program), *shape, rows)


MAX_KEPT = 64
"""number of footprints that a kernel keeps"""


def _to_python(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def depends_on_contents(places: Places) -> bool:
    """Return whether the contents of arrays decide branches or addresses of a launch."""
    from wsemu.proof.taint_steps import segment_pattern

    program, segment_of = places.program, places.segment_of.get

    def decide() -> bool:
        from wsemu.proof.contents import Contents

        found = Contents(program, [1] * len(program.code), segment_of, frozenset()).steering()
        return any(source.segment >= 0 for source in found)

    return program.remember("contents decide", segment_pattern(program, segment_of), decide)


def _list_accesses(places: Places, trace: Trace, segments: int, dependents: Dependents) -> list[Touched]:
    """Return the accesses of a trace, by segment, kind, part and instruction."""
    found: defaultdict[tuple[int, int, _How], list[tuple[int, int]]] = defaultdict(list)
    is_published = _find_published(places, trace) if dependents.has_operations else {}
    for number, event in enumerate(trace.events):
        part = dependents.follow(event)
        for how, address, size in _event_accesses(places, trace, event, part, is_published.get(number, (0, 0))):
            address &= ~ADDRESS_WRAPPED
            segment = address >> SEGMENT_SHIFT
            if FIRST_ARRAY <= segment < FIRST_ARRAY + segments:
                found[segment, event.pc, how].append((address & OFFSET_MASK, size))
    return [
        Touched(segment, how.kind, how.part, *_merge_pieces(pieces), places.span(pc), how.visible, how.is_async)
        for (segment, pc, how), pieces in found.items()
    ]


def _find_published(places: Places, trace: Trace) -> dict[int, tuple[int, int]]:
    """Return the published stores of a trace.

    Kernels without asynchronous operations have no events of proxy fences: one that was executed counts for each store.
    """
    program = places.program
    found = published_stores(program, trace.events, places.cluster_index)
    executed = np.flatnonzero(places.outcome.executions).tolist()
    if not program.asynchronous and any(_is_proxy_fence(program, pc) for pc in executed):
        return {number: (lanes, lanes) for number, (lanes, _) in found.items()}
    return found


def _is_proxy_fence(program: Program, pc: int) -> bool:
    return effects_of(NAMES[int(program.code[pc, 0])]).event == "proxy"


class _How(NamedTuple):
    """Fields of a `Touched` other than its bytes and its location."""

    kind: str
    part: str
    visible: Visible = ""
    is_async: bool = False


def _event_accesses(
    places: Places, trace: Trace, event: Event, after: int, published: tuple[int, int]
) -> Iterator[tuple[_How, int, int]]:
    """Yield the kinds, addresses and sizes of an event's accesses.  `after` has the lanes that are after a wait;
    `published` has the lanes whose stores are published, for generic loads and for copies."""
    program = places.program
    if event.kind == "access" and event.addresses >= 0:
        kind = access_kind(program, event.pc)
        if kind is None:
            return
        size = access_shape(NAMES[int(program.code[event.pc, 0])])[1]
        ways = {(part, seen): _How(kind, part, seen) for part in ("before", "after") for seen in _VISIBLE}
        generic, both = published
        for lane, address in trace.lane_addresses(event).items():
            visible = _VISIBLE[(generic >> lane & 1) + (both >> lane & 1)]
            yield ways["after" if after >> lane & 1 else "before", visible], address, size
    elif event.kind == "copy":
        part = "after" if after & event.lanes else "before"
        combines = effects_of(NAMES[int(program.code[event.pc, 0])]).moves.combines
        if event.place >= 0:
            yield _How("atomic" if combines else "write", part, "", True), event.place, event.amount
        if event.generation >= 0:
            yield _How("read", part, "", True), event.generation, event.amount


def _merge_pieces(pieces: list[tuple[int, int]]) -> tuple[Offsets, Offsets]:
    """Return disjoint ranges in ascending order of pieces (offset, size)."""
    table = np.unique(np.array(pieces, np.int64), axis=0)
    starts = table[:, 0]
    ends = np.maximum.accumulate(starts + table[:, 1])
    begins = np.concatenate([[True], starts[1:] > ends[:-1]])
    last = np.concatenate([begins[1:], [True]])
    return starts[begins], ends[last]
