"""Undefined values of a launch, followed from their sources to what they reach, for each bit and each lane.

A source is an instruction or a register: a load of uninitialized bytes, a shuffle that reads a lane which does not
participate, a register that no instruction has written.  Each lane of a register, and each byte of memory, has the mask
of its undefined bits and the set of their sources.  Defined values have no entry, so a run without undefined values
costs little.  Arithmetic propagates masks by the rules of `definedness`.

A value reaches something observable if one of its undefined bits influences control flow: a branch, an exit, or the
guard of an operation other than arithmetic.  Addresses, member masks, and operands of barriers and asynchronous
operations are observable as well.  So are operands of atomics, values stored to global memory, and printed values.  A
store to shared or local memory is a copy, whose bytes are followed.  A value that a select discards reaches nothing
observable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.model.control_flow import STEERS
from wsemu.model.isa import (
    AS_STORE,
    ATOMICS,
    FIRST_ARRAY,
    LANES,
    MULTICASTS,
    NO_STORE,
    ROW,
    SEGMENT_SHIFT,
    SERVED,
    SIZE,
    STOPS,
    TENSOR_RANK,
)
from wsemu.model.matrix import MOVES, WGMMA, vector_counts
from wsemu.model.undefined import Arisen, Followed, Reach, Sink, Source
from wsemu.reference.arithmetic import semantics
from wsemu.reference.definedness import undefined_result, width
from wsemu.reference.matrix import multiply
from wsemu.reference.state import list_lanes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from wsemu.model.isa import Operation
    from wsemu.model.program import Program
    from wsemu.reference.memory.bounds import Place
    from wsemu.reference.state import Segment, Warp
    from wsemu.reference.warp import WarpRun

Shadow = int
"""mask of undefined bits; the bits from 64 on are the set of their sources; 0 if all bits are defined"""
_MASK = (1 << 64) - 1


class Undefined:
    """The undefined values of one launch."""

    def __init__(self, program: Program, until: frozenset[Source] = frozenset()) -> None:
        """Follow the values of `program` to the end of the launch, or, if `until` names sources, until the values of
        all of them have reached something observable."""
        self._until = until
        self._sources: list[Source] = []
        self._numbers: dict[Source, int] = {}
        self._followed = Followed({}, {}, {})
        self.places: set[tuple[int, int, int]] = set()
        """(instruction, CTA, warp) that undefined registers reach"""
        self._registers = {
            row: (1 << width(type_)) - 1 | self._source(Source("register", row)) for row, type_, _ in program.undefined
        }

    def find_followed(self) -> Followed:
        """Return what the values of each source reached in the launch."""
        return self._followed

    def start_warp(self, warp: Warp) -> None:
        """Enter the registers that no instruction has written."""
        warp.undefined.update({row: [shadow] * LANES for row, shadow in self._registers.items()})

    # -- instructions -------------------------------------------------------------------------------------------------
    def before(self, run: WarpRun, name: str, operation: Operation, fields: list[int], lanes: int) -> None:
        """Follow an instruction that the `lanes` of a group are about to execute under its guard."""
        held = run.warp.undefined
        if not held:
            return
        unsure = self._shadows(run, fields[1] >> 1, run.group.lanes)
        if operation.kind == "alu":
            self._compute(run, name, operation, fields, lanes, unsure)
            return
        if unsure:
            self._reach(run, STEERS.get(name, "guard"), unsure)
        if lanes:
            for sink, rows in self._steering(name, operation, fields):
                for row in rows:
                    if row in held:
                        self._reach(run, sink, self._shadows(run, row, lanes))
            if operation.kind in ("barrier", "async") and operation.result:
                self._write_shadows(run, fields[2], lanes, {})
            if name in WGMMA:
                self._accumulate(run, name, fields, lanes)

    def _steering(self, name: str, operation: Operation, fields: list[int]) -> Iterable[tuple[Sink, Sequence[int]]]:
        """Return the rows of an instruction, other than arithmetic, that must be defined."""
        match operation.kind:
            case "load" | "store" | "atomic":
                yield "address", fields[3:4]
            case "warp" | "matrix":
                yield "member mask", fields[5:6] if operation.operands else ()
            case "barrier":
                yield "barrier operand", [row for row, _ in zip(fields[3:], operation.operands, strict=False)]
            case "async" if name in WGMMA:
                yield "operand", (fields[4], fields[6], *([fields[3]] if WGMMA[name].shared else []))
            case "async":
                yield "operand", [row for row, _ in zip(fields[3:7], operation.operands, strict=False)]
                if name.startswith("tensor."):
                    count = (fields[7] & TENSOR_RANK) + (name in MULTICASTS)
                    yield "operand", range(fields[2], fields[2] + count * ROW, ROW)
                elif name in MULTICASTS or name.startswith("async."):
                    yield "operand", fields[2:3]
            case "fence" if name == "show" and fields[7] != STOPS:
                yield "print", fields[3:4]
            case _:
                return

    def _compute(
        self, run: WarpRun, name: str, operation: Operation, fields: list[int], lanes: int, unsure: Mapping[int, Shadow]
    ) -> None:
        """Follow arithmetic; a lane with an undefined guard keeps the old result or gets the new one."""
        held, result = run.warp.undefined, fields[2]
        sources = list(zip(fields[3:7], operation.operands, strict=False))
        written = lanes | sum(1 << lane for lane in unsure)
        shadows: dict[int, Shadow] = {}
        if any(row in held for row, _ in sources):
            rows = [held.get(row) for row, _ in sources]
            same = len(sources) == 2 and sources[0] == sources[1]
            for lane in list_lanes(written):
                of_lane = [row[lane] if row else 0 for row in rows]
                if any(of_lane):
                    values = [run.read(row, type_, lane) for row, type_ in sources]
                    mask = undefined_result(name, values, [shadow & _MASK for shadow in of_lane], same=same)
                    if mask:
                        shadows[lane] = mask | _sources(of_lane)
        old = held.get(result)
        for lane, guard in unsure.items():
            values = [run.read(row, type_, lane) for row, type_ in sources]
            differ = int(semantics[name](*values)) ^ int(run.read(result, operation.result, lane))
            both = (shadows.pop(lane, 0), old[lane] if old else 0)
            if mask := (both[0] | both[1] | differ) & (1 << width(operation.result)) - 1:
                shadows[lane] = mask | _sources((guard, *both))
        self._write_shadows(run, result, written, shadows)

    # -- memory -------------------------------------------------------------------------------------------------------
    def load(
        self, run: WarpRun, fields: list[int], lanes: int, places: Mapping[int, Place], element: int, count: int
    ) -> None:
        """Follow a load of `count` elements."""
        for k in range(count):
            shadows: dict[int, Shadow] = {}
            for lane, (segment, number, offset) in places.items():
                place = (segment, number, offset + k * element)
                shadow = self._read_shadow(run, place, element, lane, fields[7] >> k * element)
                if shadow:
                    shadows[lane] = shadow
            self._write_shadows(run, fields[2] + k * ROW, lanes, shadows)

    def store(self, run: WarpRun, fields: list[int], places: Mapping[int, Place], element: int, count: int) -> None:
        """Follow a store of `count` elements, after the bytes are stored."""
        for k in range(count):
            row = run.warp.undefined.get(fields[2] + k * ROW)
            if row is None:
                continue
            for lane, (segment, number, offset) in places.items():
                if row[lane]:
                    self._keep(run, segment, number, offset + k * element, element, lane, row[lane])

    def atomic(
        self, run: WarpRun, name: str, fields: list[int], lanes: int, places: Mapping[int, Place]
    ) -> dict[int, Shadow]:
        """Follow an atomic, before it is performed, or the strong load or store that it represents; return what a store
        leaves in memory, for `keep`."""
        what, type_ = ATOMICS[name]
        size, held = SIZE[type_], run.warp.undefined
        loads = bool(fields[7] & NO_STORE)
        stores = fields[7] & SERVED == AS_STORE
        operands = () if loads else [held[row] for row in fields[4 : 6 if what == "cas" else 5] if row in held]
        results: dict[int, Shadow] = {}
        kept: dict[int, Shadow] = {}
        for lane, place in places.items():
            given = [row[lane] for row in operands if row[lane]]
            old = 0 if stores else self._read_shadow(run, place, size, lane)
            if given and stores:
                kept[lane] = given[0]
            elif mixed := (*given, *([old] if old and not loads and what != "exch" else [])):
                self._reach(run, "atomic", {lane: _sources(mixed)})
            if old:
                results[lane] = old
        self._write_shadows(run, fields[2], lanes, results)
        return kept

    def keep(self, run: WarpRun, places: Mapping[int, Place], size: int, shadows: Mapping[int, Shadow]) -> None:
        """Follow the undefined bits that a strong store has written to memory."""
        for lane, shadow in shadows.items():
            segment, number, offset = places[lane]
            self._keep(run, segment, number, offset, size, lane, shadow)

    def consume(self, run: WarpRun, lane: int, segment: Segment, offset: int, size: int) -> None:
        """Follow bytes that an asynchronous operation reads."""
        found = [segment.undefined[at] for at in range(offset, offset + size) if at in segment.undefined]
        if found:
            self._reach(run, "copy", {lane: _sources(found)})

    def _read_shadow(self, run: WarpRun, place: Place, size: int, lane: int, unused: int = 0) -> Shadow:
        """Return the undefined bits that a lane reads: bytes that nothing has written, and copies of undefined
        values."""
        segment, number, offset = place
        written = segment.written
        if not segment.undefined and (written is None or 0 not in written[offset : offset + size]):
            return 0
        shadow = 0
        for q in range(size):
            if unused >> q & 1:
                continue
            if written is not None and not written[offset + q]:
                shadow |= 0xFF << 8 * q | self._source(
                    Source("load", run.group.pc), run, lane, (number << SEGMENT_SHIFT) + offset, size
                )
            elif byte := segment.undefined.get(offset + q, 0):
                shadow |= (byte & 0xFF) << 8 * q | byte >> 64 << 64
        return shadow

    def _keep(
        self, run: WarpRun, segment: Segment, number: int, offset: int, size: int, lane: int, shadow: Shadow
    ) -> None:
        """Follow an undefined value into memory: a store to memory that outlives the launch is observable, any other
        store is a copy."""
        if number >= FIRST_ARRAY:
            self._reach(run, "store", {lane: shadow})
            return
        for source in self._name_sources((shadow,)):
            self._followed.copied.setdefault(source, run.group.pc)
        for q in range(size):
            if byte := shadow >> 8 * q & 0xFF if 8 * q < 64 else 0:
                segment.undefined[offset + q] = byte | shadow >> 64 << 64

    # -- warps --------------------------------------------------------------------------------------------------------
    def shuffle(
        self, run: WarpRun, type_: str, fields: list[int], sources: Mapping[int, int], absent: Iterable[int]
    ) -> None:
        """Follow a shuffle: lane -> the lane that it reads; the lanes in `absent` read one that does not
        participate."""
        held, every = run.warp.undefined, (1 << width(type_)) - 1
        values, selectors = held.get(fields[3]), held.get(fields[4])
        shadows = {}
        for lane, source in sources.items():
            shadow = values[source] if values else 0
            if selectors and selectors[lane]:
                shadow = every | _sources((shadow, selectors[lane]))
            if shadow:
                shadows[lane] = shadow
        for lane in absent:
            shadows[lane] = every | self._source(Source("shuffle", run.group.pc), run, lane)
        lanes = sum(1 << lane for lane in sources)
        if fields[7]:
            unsure = {lane: 1 | _sources((selectors[lane],)) for lane in sources if selectors and selectors[lane]}
            self._write_shadows(run, fields[7], lanes, unsure)
        self._write_shadows(run, fields[2], lanes, shadows)

    def vote(self, run: WarpRun, mode: str, fields: list[int], lanes: int, there: int) -> None:
        """Follow a vote, before its result is written."""
        held = self._shadows(run, fields[3], there)
        unsure = sum(1 << lane for lane in held)
        true = run.warp.predicates.get(fields[3], 0) & there & ~unsure
        false = there & ~unsure & ~true
        decided = {"any": true, "all": false, "uni": true and false, "ballot": not unsure}[mode]
        mask = 0 if decided or not unsure else unsure if mode == "ballot" else 1
        self._same_for_all(run, fields[2], lanes, mask, held.values())

    def match(self, run: WarpRun, fields: list[int], lanes: int, there: int) -> None:
        """Follow a match: one undefined value makes all results undefined."""
        held = self._shadows(run, fields[3], lanes | there)
        mask = (1 << LANES) - 1 if held else 0
        self._same_for_all(run, fields[2], lanes, mask, held.values())
        if fields[7]:
            self._same_for_all(run, fields[7], lanes, mask & 1, held.values())

    def reduction(self, run: WarpRun, mode: str, fields: list[int], there: int) -> None:
        """Follow a reduction over the lanes of a warp."""
        held = self._shadows(run, fields[3], there)
        mask = 0
        for shadow in held.values():
            mask |= shadow & _MASK
        for lane in list_lanes(there) if mask and mode in ("and", "or") else ():
            value, own = run.read(fields[3], "b32", lane), held.get(lane, 0)
            mask &= ~(~(value | own) if mode == "and" else value & ~own)
        if mask and mode not in ("and", "or", "xor"):
            mask = (1 << LANES) - 1
        self._same_for_all(run, fields[2], there, mask, held.values())

    def other(self, run: WarpRun, fields: list[int], lanes: int, *, compares: bool = False) -> None:
        """Follow an exchange whose result is defined unless it compares undefined values."""
        held = self._shadows(run, fields[3], lanes) if compares else {}
        self._same_for_all(run, fields[2], lanes, int(bool(held)), held.values())

    def _same_for_all(self, run: WarpRun, row: int, lanes: int, mask: int, of: Iterable[Shadow]) -> None:
        shadow = mask | _sources(of) if mask else 0
        self._write_shadows(run, row, lanes, dict.fromkeys(list_lanes(lanes), shadow) if shadow else {})

    # -- matrices -----------------------------------------------------------------------------------------------------
    def multiply(self, run: WarpRun, name: str, fields: list[int], lanes: int) -> None:
        """Follow a matrix operation: an element of a product depends on its row, its column, and its addend."""
        counts = vector_counts(name)[1:]
        vectors = zip((fields[3], fields[4], fields[6]), counts, strict=False)
        rows = [first + k * ROW for first, count in vectors for k in range(count)]
        every = (1 << LANES) - 1
        given = [shadow for row in rows for shadow in self._shadows(run, row, every).values()]
        results = range(fields[2], fields[2] + vector_counts(name)[0] * ROW, ROW)
        shadows: dict[int, dict[int, Shadow]] = {row: {} for row in results}
        # each source separately: operations that only move elements do not mix them
        for source in _single_sources(_sources(given)):
            masks = _Masks(run, source)
            follow = multiply.move_elements if name in MOVES else multiply.mark_elements
            follow(masks, name, fields, lanes)
            for row, lane, mask in masks.written:
                shadows[row][lane] = shadows[row].get(lane, 0) | mask | source
        for row in results:
            self._write_shadows(run, row, lanes, shadows[row])

    def _accumulate(self, run: WarpRun, name: str, fields: list[int], lanes: int) -> None:
        """Follow a `wgmma`: its register operand influences the whole result, each accumulator only its element."""
        to, of_a, *_ = vector_counts(name, fields[7])
        every = (1 << LANES) - 1
        own = range(fields[3] + ROW * WGMMA[name].shared, fields[3] + of_a * ROW, ROW)
        given = [shadow for row in own for shadow in self._shadows(run, row, every).values()]
        whole = (1 << LANES) - 1 | _sources(given) if given else 0
        for k in range(to):
            added = self._shadows(run, fields[5] + k * ROW, lanes)
            used = {lane: added.get(lane, 0) if run.read(fields[6], "p", lane) else 0 for lane in list_lanes(lanes)}
            self._write_shadows(
                run, fields[2] + k * ROW, lanes, {lane: one | whole for lane, one in used.items() if one | whole}
            )

    # -- tables -------------------------------------------------------------------------------------------------------
    def _shadows(self, run: WarpRun, row: int, lanes: int) -> dict[int, Shadow]:
        """Return lane -> undefined bits of a register, for those of some lanes that have any."""
        held = run.warp.undefined.get(row)
        return {lane: held[lane] for lane in list_lanes(lanes) if held[lane]} if held else {}

    def _write_shadows(self, run: WarpRun, row: int, lanes: int, shadows: Mapping[int, Shadow]) -> None:
        """Record what lanes write to a register; lanes without an entry write defined values."""
        table = run.warp.undefined
        held = table.get(row)
        if held is None:
            if not shadows:
                return
            held = table[row] = [0] * LANES
        for lane in list_lanes(lanes):
            held[lane] = shadows.get(lane, 0)
        if not any(held):
            del table[row]

    def _source(
        self, source: Source, run: WarpRun | None = None, lane: int = 0, address: int = -1, size: int = 0
    ) -> Shadow:
        """Return the set that contains one source."""
        number = self._numbers.get(source)
        if number is None:
            number = self._numbers[source] = len(self._sources)
            self._sources.append(source)
            if run is not None:
                self._followed.arisen[source] = Arisen(run.cta.number, run.warp.number, lane, address, size)
        return 1 << 64 + number

    def _name_sources(self, shadows: Iterable[Shadow]) -> Iterable[Source]:
        """Return the sources of values."""
        for source in _single_sources(_sources(shadows)):
            yield self._sources[source.bit_length() - 65]

    def _reach(self, run: WarpRun, sink: Sink, shadows: Mapping[int, Shadow]) -> None:
        """Record the first observable thing that values of each source reach."""
        reached = self._followed.reached
        for lane, shadow in shadows.items():
            for source in self._name_sources((shadow,)):
                if source.kind == "register":
                    self.places.add((run.group.pc, run.cta.number, run.warp.number))
                if source not in reached:
                    reached[source] = Reach(sink, run.group.pc, run.cta.number, run.warp.number, lane)
        if self._until and self._until <= reached.keys():
            run.launch.budget = 0  # the run ends at the next instruction


class _Masks:
    """A warp whose registers hold the masks of undefined bits of one source; used for operations that move elements
    between lanes."""

    def __init__(self, run: WarpRun, source: Shadow) -> None:
        self._held = run.warp.undefined
        self._source = source
        self.written: list[tuple[int, int, int]] = []
        """register, lane and mask, if the mask is not 0"""

    def read(self, row: int, type_: str, lane: int) -> int:
        held = self._held.get(row)
        return held[lane] & _MASK if held and held[lane] & self._source else 0

    def write(self, row: int, type_: str, lane: int, value: int) -> None:
        if value:
            self.written.append((row, lane, value))


def _single_sources(sources: Shadow) -> Iterator[Shadow]:
    """Yield the members of a set of sources, each as a set."""
    while sources:
        yield sources & -sources
        sources &= sources - 1


def _sources(shadows: Iterable[Shadow]) -> Shadow:
    """Return the union of the sources of values."""
    union = 0
    for shadow in shadows:
        union |= shadow
    return union >> 64 << 64
