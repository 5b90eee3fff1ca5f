"""Loads and stores of a block: `accesses` checks them, and the block moves the data, or the VM performs them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir

from wsemu.machine.arithmetic.codegen import (
    ELEMENT,
    I32,
    I64,
    Builder,
    Value,
    pointer,
)
from wsemu.machine.lowering import compiled
from wsemu.machine.memory.lane_access import (
    load_pieces,
    load_side_by_side,
    load_some,
    pieces_of,
    store_pieces,
    store_side_by_side,
    store_some,
    transfer,
)
from wsemu.machine.records import call, permit_at
from wsemu.machine.scalars import prefetch
from wsemu.machine.state import LOADED, STORED
from wsemu.machine.tier.accesses import HOST, HOW, noted_lanes, noted_range, since_last
from wsemu.machine.tier.frame import field_of
from wsemu.machine.tier.permitted import WithPermits, lie, shape_of
from wsemu.machine.tier.sections import either_way, some_either_way
from wsemu.machine.tier.shapes import UNIFORM, line
from wsemu.model.isa import (
    FIRST_ARRAY,
    FIRST_STORE,
    LANES,
    N_MEMORY,
    NAMES,
    NON_COHERENT,
    READ,
    ROW,
    SEGMENT_SHIFT,
    SIZE,
    WRITE,
    memory_shape,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from wsemu.machine.tier.shapes import State, Steps

UNUSED = 0xFFFF
"""mask, in `aux` of a load, of each lane's loaded bytes that are unused"""
CACHE_LINE = 64
MOST_LINES = 8
"""maximum cache lines that are prefetched for one access"""
MOST_PIECES = 8
"""maximum pieces of an access with known steps that a block performs inline; more are moved by a separate function"""


class LoadsAndStores(WithPermits):
    """Generator of a function's loads and stores."""

    def _memory(self, pc: int, state: State) -> None:
        row = self.rows.code[pc]
        name = NAMES[row[0]]
        store, size, n = memory_shape(name)
        moved = [row[2] + j * ROW for j in range(n)]
        shape = self.rows.shape(state, row[3], "b64")
        condition = self._condition(pc, state)
        if condition is not None and not store:
            for at in moved:  # lanes that do not load keep their values
                self._fill_row(state, at)
        if self._mark(pc) == LOADED and row[7] & UNUSED:
            self._seldom(pc, state, moved, condition)
        elif condition is None and shape and not store and shape.alike:
            self._load_one(pc, state, f"b{8 * size}", moved)
        elif condition is None and shape and shape.steps == line(size * n) and (size * n).bit_count() == 1:
            self._side_by_side(pc, state, store, f"b{8 * size}", moved)
        else:
            self._any_way(pc, state, name, moved, condition)

    def _fetch_ahead(self, pc: int, host: Value, size: int, lanes: Steps | Value) -> None:
        """Prefetch the data of this warp's next load or store by the instruction.

        It is expected at the distance that this access has from the previous one. Lanes have `size` bytes each, and
        known distances, or addresses at a location.
        """
        b, known = self.b, isinstance(lanes, tuple)
        first = self._first(pc) if known else b.load(pointer(b, lanes, I64))
        with b.if_then(b.icmp_signed(">=", first, I64(FIRST_ARRAY << SEGMENT_SHIFT))):
            step = self._apart(_SINCE_LAST, (), self.address, self.w, I64(pc), host)
            following = b.add(host, step)
            if lanes == line(size):
                self._fetch_cells_ahead(pc, b.add(first, step))
            for at in _lines(lanes) if known else self._lines_of(size, lanes, first):
                prefetch.body(b, b.add(following, at))

    def _fetch_cells_ahead(self, pc: int, first: Value) -> None:
        """Prefetch the shadow cells of contiguous lanes from an address on, if the instruction has a permit."""
        b = self.b
        permit = permit_at.body(b, self._spot(pc), I64(0))
        with b.if_then(b.icmp_unsigned("!=", field_of(b, permit, "judged"), I64(0))):
            offset = b.sub(first, field_of(b, permit, "low"))
            at = b.shl(b.lshr(offset, field_of(b, permit, "grain")), I64(3))
            for plane in ("writes", "reads"):
                cells = b.add(field_of(b, permit, plane), at)
                for number in range(8 * LANES // CACHE_LINE):
                    prefetch.body(b, b.add(cells, I64(CACHE_LINE * number)))

    def _lines_of(self, size: int, place: Value, first: Value) -> list[Value]:
        """Return the distances of some lanes' bytes from those of the first lane."""
        b = self.b
        lanes = range(0, LANES, max(LANES // MOST_LINES, CACHE_LINE // size))
        return [b.sub(b.load(pointer(b, b.add(place, I64(8 * lane)), I64)), first) for lane in lanes]

    def _ways(self, host: Value, met: Any = None) -> tuple[Any, Any, Any]:
        """Return three LLVM blocks: the usual path, the closer look, and their join; the builder is in none of them."""
        usual, closer = (self.made.append_basic_block(name) for name in ("usual", "closer"))
        met = met or self.made.append_basic_block("met")
        self._usual(self.b.cbranch(self.b.icmp_unsigned("!=", host, I64(0)), usual, closer))
        return usual, closer, met

    def _look_closer(self, pc: int, state: State, lanes: Value) -> None:
        """Emit the access as the VM performs it, and continue in the block after it.

        If the host is needed in the middle of it, some lanes have loaded already, so their rows must be up to date, and
        not derived from the first lane.
        """
        b = self.b
        use = self.rows.uses[pc]
        for at, _ in use.reads:
            self._fill_row(state, at)
        in_place = {at for at, _ in (*use.reads, *use.writes)}
        entry = self._field(self.m, "access_entry")
        status = call.body(b, entry, self.address, self.w, I64(pc), self.registers, b.zext(lanes, I64))
        block, phi = self._leave(pc, {at: shape for at, shape in state.items() if at not in in_place})
        phi.add_incoming(status, b.block)
        onward = self.made.append_basic_block("onward")
        self._usual(b.cbranch(b.icmp_unsigned("==", status, I64(0)), onward, block))
        b.position_at_end(onward)

    def _seldom(self, pc: int, state: State, moved: list[int], condition: Value | None) -> None:
        """Emit an access that the VM always performs."""
        b, lanes = self.b, self._lanes(condition)
        some, behind = (self.made.append_basic_block(name) for name in ("some", "behind"))
        b.cbranch(b.icmp_unsigned("!=", lanes, I32(0)), some, behind)
        b.position_at_end(some)
        self._look_closer(pc, state, lanes)
        b.branch(behind)
        b.position_at_end(behind)
        for row in moved:
            self.kept.forget(row)

    def _mark(self, pc: int) -> int:
        """Return the mark of an access: as a load through the read-only cache, or as a store that may conflict with
        one; or 0."""
        row = self.rows.code[pc]
        if not self.rows.reads_only or row[0] >= N_MEMORY:
            return 0
        if row[0] >= FIRST_STORE:
            return STORED
        return LOADED if row[7] & NON_COHERENT else 0

    def _note_range(self, pc: int, extent: int) -> None:
        bit = self._mark(pc)
        if bit:
            self._apart(_NOTE_RANGE, (extent, bit), self.address, self._first(pc))

    def _judged_known(self, pc: int, steps: Steps, size: int, kind: int) -> Value:
        """Return the host address of the first lane's bytes, for lanes at known distances; 0 if a closer look is
        needed."""
        shape, place = shape_of(size, kind, lie(steps, size)), self._constants(self.b, steps)
        found = self._apart(_EITHER_WAY, (shape,), self.address, self.w, I64(pc), place, self._first(pc))
        return self.b.and_(found, I64(HOST))

    def _load_one(self, pc: int, state: State, t: str, moved: list[int]) -> None:
        b, size = self.b, SIZE[t]
        host = self._access_with_permit(pc, UNIFORM, size, len(moved), READ)
        if host is None:
            host = self._judged_known(pc, UNIFORM, size * len(moved), READ)
        usual, closer, met = self._ways(host)
        b.position_at_end(usual)
        self._note_range(pc, size * len(moved))
        values = [b.load(pointer(b, b.add(host, I64(j * size)), ELEMENT[t]), align=1) for j in range(len(moved))]
        for row, value in zip(moved, values, strict=True):
            b.store(value, pointer(b, b.add(self.registers, I64(row)), value.type))
        b.branch(met)
        b.position_at_end(closer)
        self._look_closer(pc, state, I32(-1))
        others = [b.load(pointer(b, b.add(self.registers, I64(row)), ELEMENT[t])) for row in moved]
        last = b.block
        b.branch(met)
        b.position_at_end(met)
        for row, value, other in zip(moved, values, others, strict=True):
            both = b.phi(value.type)
            both.add_incoming(value, usual)
            both.add_incoming(other, last)
            self.kept.forget(row)
            self.whole.discard(row)
            self.kept.scalars[row] = both

    def _side_by_side(self, pc: int, state: State, store: bool, t: str, moved: list[int]) -> None:
        b, size = self.b, SIZE[t]
        vector = ir.VectorType(ELEMENT[t], LANES)
        parts = [self._vector(state, row, t) for row in moved] if store else []
        kind = WRITE if store else READ
        host = self._access_with_permit(pc, line(size * len(moved)), size, len(moved), kind)
        if host is None:
            host = self._judged_known(pc, line(size * len(moved)), size * len(moved), kind)
        usual, closer, met = self._ways(host)
        b.position_at_end(usual)
        self._note_range(pc, LANES * size * len(moved))
        self._fetch_ahead(pc, host, size * len(moved), line(size * len(moved)))
        if store:
            store_side_by_side(b, host, parts)
        else:
            parts = load_side_by_side(b, host, len(moved), ELEMENT[t])
        places = [pointer(b, b.add(self.registers, I64(row)), vector) for row in moved]
        for place, part in zip(places, parts if not store else (), strict=False):
            b.store(part, place, align=64)
        b.branch(met)
        b.position_at_end(closer)
        self._look_closer(pc, state, I32(-1))
        b.branch(met)
        b.position_at_end(met)
        for row in moved if not store else ():
            self.kept.forget(row)

    def _any_way(self, pc: int, state: State, name: str, moved: list[int], condition: Value | None) -> None:
        """Emit an access whose lanes may be scattered, or part of a warp."""
        b = self.b
        if self.some is not None:
            self._access_by_some(pc, state, name, moved, self._lanes(condition))
            return
        move = self._moved_by_steps(pc, state, name, moved) or self._moved_as_found(pc, state, name)
        lanes = self._lanes(condition)
        behind = self.made.append_basic_block("behind")
        if condition is not None:
            all_, some = (self.made.append_basic_block(part) for part in ("all", "some"))
            none = self.made.append_basic_block("maybe")
            b.cbranch(b.icmp_unsigned("==", lanes, I32(0)), behind, none)
            b.position_at_end(none)
            b.cbranch(b.icmp_unsigned("==", lanes, I32(-1)), all_, some)
            b.position_at_end(some)
            self._look_closer(pc, state, lanes)
            b.branch(behind)
            b.position_at_end(all_)
        move()
        b.branch(behind)
        b.position_at_end(behind)
        if not memory_shape(name)[0]:
            for at in moved:
                self.kept.forget(at)

    def _access_by_some(self, pc: int, state: State, name: str, moved: list[int], lanes: Value) -> None:
        """Emit an access by lanes that have diverged from others."""
        b, row = self.b, self.rows.code[pc]
        store, size, n = memory_shape(name)
        some, behind = (self.made.append_basic_block(part) for part in ("some", "behind"))
        b.cbranch(b.icmp_unsigned("!=", lanes, I32(0)), some, behind)
        b.position_at_end(some)
        for at, _ in self.rows.uses[pc].reads:
            self._fill_row(state, at)
        if size == 4 and n == 1 and not self._mark(pc):
            place, kind = b.add(self.registers, I64(row[3])), I64(WRITE if store else READ)
            who = (self.address, self.w, I64(pc), place, I64(row[6]), b.zext(lanes, I64), kind)
            host = self._apart(_SOME_EITHER_WAY, (), *who)
            usual, closer, _ = self._ways(host, behind)
            b.position_at_end(usual)
            vector = ir.VectorType(I32, LANES)
            register = pointer(b, b.add(self.registers, I64(moved[0])), vector)
            there, values = pointer(b, host, vector), b.load(register, align=64)
            if store:
                store_some(b, values, there, lanes)
            else:
                b.store(load_some(b, there, lanes, values), register, align=64)
            b.branch(behind)
            b.position_at_end(closer)
        self._look_closer(pc, state, lanes)
        b.branch(behind)
        b.position_at_end(behind)
        for at in moved:
            self.kept.forget(at)

    def _judged_any_way(
        self, pc: int, state: State, name: str, place: Value, bias: Value, steps: Steps | None, move: Any
    ) -> None:
        """Check an access by all lanes, whose addresses are at `place`, and `move` the data of a usual one.

        The lanes are at the distances `steps` from the first, if these are known.
        """
        b = self.b
        store, size, n = memory_shape(name)
        found, kind = I64(0), WRITE if store else READ
        how = lie(steps, size * n) if steps else None
        if (size * n).bit_count() == 1:
            permitted = self._access_with_permit(pc, steps, size, n, kind) if steps else None
            shape = shape_of(size * n, kind, how)
            found = permitted or self._apart(_EITHER_WAY, (shape,), self.address, self.w, I64(pc), place, bias)
        usual, closer, met = self._ways(found)
        b.position_at_end(usual)
        bit = self._mark(pc)
        if bit:
            self._apart(_NOTE_LANES, (size * n, bit), self.address, place, bias)
        host = b.and_(found, I64(HOST))
        if kind == READ:
            self._fetch_ahead(pc, host, size * n, steps or place)
        move(host, b.lshr(found, I64(HOW)))
        b.branch(met)
        b.position_at_end(closer)
        self._look_closer(pc, state, I32(-1))
        b.branch(met)
        b.position_at_end(met)

    def _moved_as_found(self, pc: int, state: State, name: str) -> Callable[[], None]:
        """Return the function that emits an access of scattered lanes."""
        b, row = self.b, self.rows.code[pc]
        for at, _ in self.rows.uses[pc].reads:
            self._fill_row(state, at)
        place = b.add(self.registers, I64(row[3]))

        def body(b: Builder, given: Any) -> None:
            how, registers, d, a, delta = given
            transfer(b, name, how, registers, d, a, delta, I32(-1), quarters=True)

        def move(host: Value, how: Value) -> None:
            delta = b.sub(host, b.load(pointer(b, place, I64)))
            moves = self._helper(("transfer", name), 5, body)
            b.call(moves, [how, self.registers, I64(row[2]), I64(row[3]), delta])

        return lambda: self._judged_any_way(pc, state, name, place, I64(row[6]), None, move)

    def _moved_by_steps(self, pc: int, state: State, name: str, moved: list[int]) -> Callable[[], None] | None:
        """Return the function that emits an access of lanes with known steps; None if they have none."""
        b = self.b
        shape = self.rows.shape(state, self.rows.code[pc][3], "b64")
        store, size, n = memory_shape(name)
        if not shape or n == 3:
            return None
        pieces = pieces_of(shape.steps, size * n, alike=not store)
        many = len(pieces) > MOST_PIECES
        vector = ir.VectorType(ELEMENT[f"b{8 * size}"], LANES)
        parts = []
        if store and many:
            for row in moved:
                self._fill_row(state, row)
        elif store:
            parts = [self._vector(state, row, f"b{8 * size}") for row in moved]
        first = self._first(pc)

        def places(b: Builder, registers: Value, d: Value) -> list[Value]:
            return [pointer(b, b.add(registers, b.add(d, I64(j * ROW))), vector) for j in range(n)]

        def body(b: Builder, given: Any) -> None:
            host, *rest = given
            rows = places(b, *rest)
            if store:
                store_pieces(b, host, [b.load(row, align=64) for row in rows], pieces)
            else:
                for row, part in zip(rows, load_pieces(b, host, n, vector.element, pieces), strict=True):
                    b.store(part, row, align=64)

        def move(host: Value, how: Value) -> None:
            d = I64(moved[0])
            if many:
                helper = self._helper(("transfer", name, "by", self._number_of(shape.steps)), 3, body)
                b.call(helper, [host, self.registers, d])
            elif store:
                store_pieces(b, host, parts, pieces)
            else:
                body(b, (host, self.registers, d))

        constants = self._constants(self.b, shape.steps)
        return lambda: self._judged_any_way(pc, state, name, constants, first, shape.steps, move)


def _lines(steps: Steps) -> list[Value]:
    """Return the distances, from the first lane's bytes, of the cache lines of lanes with these steps."""
    return [I64(CACHE_LINE * number) for number in sorted({step // CACHE_LINE for step in steps})[:MOST_LINES]]


_EITHER_WAY, _SOME_EITHER_WAY, _SINCE_LAST = compiled(either_way), compiled(some_either_way), compiled(since_last)
_NOTE_RANGE, _NOTE_LANES = compiled(noted_range), compiled(noted_lanes)
