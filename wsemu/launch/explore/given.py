"""Test whether a launch uses results of atomics only to allocate slots, by the conditions of `proof/slots.py` and
`proof/slot_functions.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wsemu.launch.explore.arrays import copy_arrays, put_back
from wsemu.launch.explore.sessions import make_session
from wsemu.model.isa import ADDRESS_WRAPPED, FIRST_ARRAY, NAMES, SEGMENT_SHIFT, SHARED, access_shape
from wsemu.proof import slots
from wsemu.proof.mixed_vectors import find_mixed_vectors
from wsemu.proof.slot_functions import SlotFunctions, Touched, Use, shows_one_owner
from wsemu.proof.slots import Counts, Put

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wsemu.evidence.places import Places
    from wsemu.launch.explore.session import Ask, Moved, Session
    from wsemu.model.bound import Bound
    from wsemu.model.outcome import Event, Tracer
    from wsemu.proof.slots import Place, Plan, Range, Stretch
    from wsemu.proof.taint import Influence
    from wsemu.proof.threads import Made

MOST_ACCESSES = 1 << 14
"""Maximum warp instructions of followed accesses."""
MOST_WARPS, MOST_ADDS = 4_096, 20_000
"""maximum warps and adds of a launch that runs in two orders"""

_OFFSET = (1 << SEGMENT_SHIFT) - 1


class Given:
    """The test for one launch that has run."""

    def __init__(
        self, bound: Bound, places: Places, trace: Tracer, initial: Callable[[], list[Any]], analysis: Influence
    ) -> None:
        self.bound, self.places, self.trace, self.initial = bound, places, trace, initial
        self.analysis = analysis.analysis

    def right(self) -> bool:
        """Return whether only the allocated slots depend on the order."""
        if self.bound.program.asynchronous or self.bound.program.unmodelled or self.places.outcome.status != "done":
            return False
        if find_mixed_vectors(self.bound.program, range(len(self.bound.program.code))):
            return False
        known = known_rows(self.bound)
        found = slots.plan(self.bound.program, self.analysis, known)
        before = self.initial()
        if any(data is None for data in before):
            return False
        if found is None:
            return self._are_functions(before, known)
        if not found.near:
            return self._holds_in_two_orders(found, before)
        code = self.bound.program.code
        operands = {pc: known[row] for pc in found.counters if (row := int(code[pc, 4])) in known}
        trace = self.trace(slots.accesses(self.bound.program))
        proven = slots.proves_slots(
            self.bound.program, found, trace, self._initial_value_reader(before), self._is_in_one_array, operands
        )
        return proven or self._are_functions(before, known)

    # -- functions of numbers -----------------------------------------------------------------------------------------
    def _are_functions(self, before: list[Any], known: dict[int, int]) -> bool:
        """Return whether each thread's accesses are a function of the number that it draws."""
        program = self.bound.program
        parameters = {parameter.row for parameter in program.parameters} | {row for row, *_ in program.constants}
        executions = self.places.outcome.executions
        uniform = frozenset({*known, *self.bound.rows, *parameters})
        if sum(executions[pc] for pc in slots.accesses(program)) > MOST_ACCESSES:
            return False
        of_ctas = frozenset(row for name, row in program.specials.items() if name.startswith("ctaid."))
        for rows in dict.fromkeys((uniform, uniform | of_ctas)):
            use = SlotFunctions(program, self.analysis, executions, rows).find_use()
            if use is None:
                continue
            operands = {pc: known[row] for pc in use.draws if (row := int(program.code[pc, 4])) in known}
            touched = shows_one_owner(program, use, self.trace(slots.accesses(program)), operands)
            if touched is None or self.analysis.find_stored(touched.find_resets()):
                continue
            if all(own >= 0 for own, _ in touched.counters) or rows == uniform:
                return not use.lonely or self._rotates(use, touched, before, operands)
        return False

    def _rotates(self, use: Use, touched: Touched, before: list[Any], operands: dict[int, int]) -> bool:
        """Run the launch with its numbers rotated: each draw returns the number of the draw `shift` draws later.

        Some accesses occur with certain numbers only. The shifts are chosen so that each thread performs them all.
        """
        if len(touched.counters) != 1:
            return False
        total = touched.draws
        classes: dict[frozenset[int], set[int]] = {}
        for draw, path in touched.paths.items():
            classes.setdefault(frozenset(path), set()).add(draw)
        shifts = _cover(total, [numbers for path, numbers in classes.items() if path])
        if shifts is None:
            return False
        kept = copy_arrays(self.bound)
        put_back(self.bound, before)
        session = make_session(self.bound, use.draws, slots.accesses(self.bound.program))
        try:
            first: list[int] = []
            for shift in (0, *shifts):
                if not self._runs_rotated(session, use, touched, operands, first, shift):
                    return False
            return touched.have_one_owner()
        finally:
            put_back(self.bound, kept)
            session.close()

    def _runs_rotated(
        self, session: Session, use: Use, touched: Touched, operands: dict[int, int], numbers: list[int], shift: int
    ) -> bool:
        """Run all CTAs.  Each draw returns the number that the first run records for the draw `shift` draws later."""
        code, given = self.bound.program.code, 0
        moved = session.start()
        touched.last.clear()
        for cta in range(session.ctas):
            now = moved[cta]
            self._record(use, touched, operands, now)
            while now.status == "stands" and (asks := session.asks(cta)):
                size = access_shape(NAMES[int(code[asks[0].pc, 0])])[1]
                if not shift:
                    number, offset = (asks[0].place[1] >> SEGMENT_SHIFT) - FIRST_ARRAY, asks[0].place[1] & _OFFSET
                    if asks[0].place[0] >= 0:
                        return False
                    data = self.bound.segments[number][0][offset : offset + size]
                    numbers.append(int.from_bytes(data.tobytes(), "little"))
                else:
                    session.write(asks[0].place, numbers[(given + shift) % len(numbers)], size)
                given += 1
                now = session.go(asks[0])
                if not self._record(use, touched, operands, now):
                    return False
            if now.status != "done" or now.findings:
                return False
        return True

    def _record(self, use: Use, touched: Touched, operands: dict[int, int], moved: Moved) -> bool:
        code = self.bound.program.code
        for one in moved.made:
            pc = one.event.pc
            if one.event.kind != "access" or (pc not in use.draws and pc not in use.lonely):
                continue
            for lane, address in one.addresses:
                address &= ~ADDRESS_WRAPPED
                thread = one.event.cta, one.event.warp, lane
                location = _segment_owner(one.event.cta, address), address
                if not touched.takes(use, NAMES[int(code[pc, 0])], pc, thread, location, operands.get(pc)):
                    return False
        return True

    # -- results that other lanes use ---------------------------------------------------------------------------------
    def _holds_in_two_orders(self, found: Plan, before: list[Any]) -> bool:
        """Return whether a plan also holds if results may come from other lanes or from memory.

        In a second run, adds return the results of the opposite order.  That run shows which result determines the
        address of each store.
        """
        if self.bound.configuration.ctas * self.bound.configuration.warps > MOST_WARPS:
            return False
        kept = copy_arrays(self.bound)
        put_back(self.bound, before)
        session = make_session(self.bound, found.counters, slots.accesses(self.bound.program))
        try:
            return self._compare_slots(session, found, before)
        finally:
            put_back(self.bound, kept)
            session.close()

    def _compare_slots(self, session: Session, found: Plan, before: list[Any]) -> bool:
        code = self.bound.program.code
        sizes = {pc: access_shape(NAMES[int(code[pc, 0])])[1] for pc in (*found.stores, *found.counters)}
        counts = Counts(self._initial_value_reader(before))
        first = _Way(session, sizes, None, counts)
        if not first.run():
            return False
        ends = {place: counts.base[place] + counts.now[place] for place in counts.now}
        turned = {n: ends[s.counter] - s.first - s.length for n, s in enumerate(first.stretches)}
        second = _Way(session, sizes, turned, Counts(self._initial_value_reader(before)))
        if not second.run() or not first.is_like(second, found):
            return False
        puts = first.puts(second, found, turned)
        if puts is None:
            return False
        others = [
            (own, at, at + access_shape(NAMES[int(code[pc, 0])])[1])
            for pc, own, at in first.touched_addresses() if pc not in found.stores and pc not in found.counters
        ]  # fmt: skip
        return slots.holds(found, puts, counts, sizes, others, self._is_in_one_array)

    def _initial_value_reader(self, before: list[Any]) -> Callable[[Place, int], int | None]:
        """Return a function that reads the value of a location before the launch."""

        def initial_value(place: Place, size: int) -> int | None:
            number, offset = (place[1] >> SEGMENT_SHIFT) - FIRST_ARRAY, place[1] & _OFFSET
            if place[0] >= 0 or not 0 <= number < len(before):
                return None
            return int.from_bytes(bytes(before[number][offset : offset + size]), "little")

        return initial_value

    def _is_in_one_array(self, part: Range) -> bool:
        """Return whether bytes belong to one array."""
        segment, start = part.start >> SEGMENT_SHIFT, part.start & _OFFSET
        end = start + part.end - part.start
        if segment == SHARED:
            arrays = [(a.offset, a.offset + a.dtype.itemsize * _elements(a.shape)) for a in self.bound.program.shared]
            return any(first <= start and end <= last for first, last in arrays)
        return any(
            array.segment == segment and array.offset <= start
            and end <= array.offset + array.dtype.itemsize * _elements(array.shape)
            and _dense(array.shape, array.strides, array.dtype.itemsize)
            for array in self.bound.arrays
        )  # fmt: skip


def known_rows(bound: Bound) -> dict[int, int]:
    """Return the register rows with one number for the whole launch."""
    program, shape = bound.program, bound.configuration
    rows = {row: value for row, type_, value in program.constants if type_[0] == "b"}
    rows |= {row: value for row, (type_, value) in bound.rows.items() if type_[0] == "b"}
    for name, size in (("ntid", shape.block), ("nctaid", shape.grid)):
        for axis, number in zip("xyz", size, strict=True):
            if f"{name}.{axis}" in program.specials:
                rows[program.specials[f"{name}.{axis}"]] = number
    return {row: int(value) for row, value in rows.items()}


def _cover(total: int, classes: list[set[int]]) -> list[int] | None:
    """Return rotations by which each of `total` draws gets a number of each class, or None if too many are needed."""
    shifts: list[int] = []
    for numbers in classes:
        left = {*range(total)} - {(number - shift) % total for number in numbers for shift in (0, *shifts)}
        while left:
            if len(shifts) * total > MOST_ADDS:
                return None
            shift = (min(numbers) - min(left)) % total
            shifts.append(shift)
            left -= {(number - shift) % total for number in numbers}
    return None if len(shifts) * total > MOST_ADDS else shifts


class _Way:
    """A run of a launch, one CTA after another, in which adds return their own results or prescribed ones."""

    def __init__(self, session: Session, sizes: dict[int, int], told: dict[int, int] | None, counts: Counts) -> None:
        self.session, self.sizes, self.told, self.counts = session, sizes, told, counts
        self.asks: list[Ask] = []
        self.stretches: list[Stretch] = []
        self.made: list[Made] = []

    def run(self) -> bool:
        """Run all CTAs.  Return whether the run ends without a finding, and no thread has to wait for another CTA."""
        moved = self.session.start()
        for cta in range(self.session.ctas):
            now = moved[cta]
            self.made += now.made
            while now.status == "stands" and (asks := self.session.asks(cta)):
                if len(self.asks) >= MOST_ADDS:
                    return False
                now = self._perform_access(asks[0])
                self.made += now.made
                if not self.counts.grow:
                    return False
            if now.status != "done" or now.findings:
                return False
        return True

    def _perform_access(self, ask: Ask) -> Moved:
        size = self.sizes[ask.pc]
        stretch = self.counts.take(ask.place, size, self.session.operand(ask))
        if self.told is not None and len(self.asks) in self.told:
            self.session.write(ask.place, self.told[len(self.asks)], size)
        self.asks.append(ask)
        self.stretches.append(stretch)
        return self.session.go(ask)

    def is_like(self, other: _Way, found: Plan) -> bool:
        """Return whether another order differs only in the positions of allocated slots."""
        if self.asks != other.asks or self.stretches != other.stretches or len(self.made) != len(other.made):
            return False
        return all(
            _event_identity(one.event) == _event_identity(two.event)
            and (one.addresses == two.addresses or one.event.pc in found.stores)
            for one, two in zip(self.made, other.made, strict=True)
        )

    def puts(self, other: _Way, found: Plan, turned: dict[int, int]) -> list[Put] | None:
        """Return each store with the add that allocated its slot; None if that is unknown."""
        moves: dict[tuple[int, int], dict[int, list[Stretch]]] = {}
        for n, (ask, stretch) in enumerate(zip(self.asks, self.stretches, strict=True)):
            there = moves.setdefault((ask.cta, ask.pc), {})
            there.setdefault(turned[n] - stretch.first, []).append(stretch)
        made = []
        for one, two in zip(self.made, other.made, strict=True):
            grown = found.stores.get(one.event.pc) if one.event.kind == "access" else None
            if grown is None:
                continue
            for (_, address), (_, moved) in zip(one.addresses, two.addresses, strict=True):
                step, rest = divmod((moved & ~ADDRESS_WRAPPED) - (address & ~ADDRESS_WRAPPED), grown.factor)
                fitting = moves.get((one.event.cta, grown.atomic), {}).get(step, [])
                if rest or step == 0 or len(fitting) != 1:
                    return None
                made.append(
                    Put(one.event.pc, _segment_owner(one.event.cta, address), address & ~ADDRESS_WRAPPED, fitting[0])
                )
        return made

    def touched_addresses(self) -> Iterator[tuple[int, int, int]]:
        """Yield (instruction, CTA of shared memory or -1, address) for all accesses."""
        for one in self.made:
            for _, address in one.addresses:
                yield one.event.pc, _segment_owner(one.event.cta, address), address & ~ADDRESS_WRAPPED


def _event_identity(event: Event) -> tuple[Any, ...]:
    """Return an event without the location of an access."""
    access = event.kind == "access"
    return (*event[:3], event.pc, event.lanes if access else event.place)


def _segment_owner(cta: int, address: int) -> int:
    return cta if (address & ~ADDRESS_WRAPPED) >> SEGMENT_SHIFT == SHARED else -1


def _elements(shape: tuple[int, ...]) -> int:
    count = 1
    for extent in shape:
        count *= extent
    return count


def _dense(shape: tuple[int, ...], strides: tuple[int, ...], size: int) -> bool:
    """Return whether elements lie one after another, in the order of their indices."""
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        if stride != size:
            return False
        size *= extent
    return True
