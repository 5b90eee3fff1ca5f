"""Decide launches whose CTAs draw numbers from a common counter, by showing that each CTA alone is correct, whatever
numbers it draws.

No two draws of a counter return one number.  If accesses to arrays for different numbers do not conflict, CTAs interact
only through the numbers.  The launch is correct in all interleavings if each CTA is correct with each sequence of
numbers that it can get: docs/how.md, "Drawn numbers", has the theorem.

The search lets a CTA draw when nothing else in the CTA can run.  In each such state it tries each possible number.  The
operations until the next draw are a *segment*.  A state consists of registers that matter, memory that a segment reads
and an earlier one may have written, parities of phases, and the last segments.  `Window` finds how many of these may
contain operations that some thread has not observed.  An engine then judges runs of one CTA in which each segment
follows each state.
"""

from __future__ import annotations

import hashlib
from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.launch.explore.arrays import put_back
from wsemu.launch.explore.session import Ask, Looking
from wsemu.launch.explore.sessions import make_session
from wsemu.model.data import NamedTuple, dataclass, field
from wsemu.model.effects import effects_of
from wsemu.model.isa import (
    ADDRESS_WRAPPED,
    ATOMICS,
    FIRST_ARRAY,
    NAMES,
    SCOPES,
    SEGMENT_SHIFT,
    SHARED,
    SIZE,
)
from wsemu.proof.threads import Knowledge, Shared, memory_effect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from wsemu.launch.explore.session import Moved, Session
    from wsemu.model.bound import Bound
    from wsemu.model.outcome import Event, RawFinding
    from wsemu.proof.threads import Made, Place, Thread

MOST_SEGMENTS, MOST_TOUCHES = 1_200, 1_000_000
"""Limits for one unit of effort: segments, and elements of arrays that they access."""
MOST_DISTANCE = 4
"""maximum number of segments after which all threads must have observed an operation"""
MOST_RUNS = 400
"""The limit of runs that an engine judges for one unit of effort."""
_OFFSET = (1 << SEGMENT_SHIFT) - 1
_PLAIN, _ATOMIC, _REDUCED = 1, 2, 4
"""Kinds of accesses, as bits."""
_EVENTS = 1 << 20
"""The first event of segment n has number n times this."""
_OF_PHASES = ("init", "inval", "arrive_on", "expect", "credit", "await", "phase")
_BY_THREADS = ("arrive", "sync", "warp", "access", "init", "inval", "arrive_on", "expect", "await", "copy", "landed")
"""kinds of events that other threads may have to observe"""


class _OtherwiseError(Exception):
    """The launch does not satisfy the conditions, or fails: other methods decide it."""


class Window(Knowledge):
    """Clocks of the threads of a CTA, with a column for each copy."""

    def _copy(self, event: Event, number: int) -> Iterator[Any]:
        name = NAMES[self.code[event.pc][0]]
        for thread in self._threads(event, event.lanes):
            self._copies(name, thread, event.pc)
        yield from super()._copy(event, number)

    issued: tuple[int, ...] = ()
    """Columns of all copies."""

    def _copies(self, name: str, thread: Thread, pc: int) -> int:
        column = super()._copies(name, thread, pc)
        self.issued = (*self.issued, column)
        return column


@dataclass(slots=True)
class State:
    """A CTA before a draw, as one path reached it."""

    cta: int
    saved: Any
    memory: Any
    known: Window
    ask: Ask
    segments: tuple[bytes, ...]
    """The last segments."""
    floors: tuple[Any, ...]
    """Clocks of all that was done up to the end of each of the last segments."""
    last: dict[Thread, int]
    """segment of the last event of each thread"""
    marks: Any
    """interval of the last event of each thread"""
    numbers: tuple[int, ...]
    """the numbers that the CTA has drawn so far"""
    after: dict[tuple[bytes, bytes], int] = field(default_factory=dict)
    """a number that leads to a result, by (segment, next state or nothing)"""


class Touch(NamedTuple):
    """The accesses to a location of an array."""

    owners: frozenset[int]
    """The numbers that all accesses have in common."""
    writes: bool
    kinds: int

    def conflicts(self) -> bool:
        """Return whether CTAs with different numbers may access it in an order that matters."""
        return self.writes and not self.owners and self.kinds not in (_ATOMIC, _REDUCED)


class Draws:
    """The drawn numbers of a launch."""

    def __init__(
        self, bound: Bound, ordered: frozenset[int], logged: frozenset[int], initial: Sequence[Any],
        begin: Callable[[Shared], Window], passes: Callable[[RawFinding], bool],
    ) -> None:  # fmt: skip
        """`passes` returns whether a finding is harmless."""
        self.bound, self.ordered, self.logged, self.initial = bound, ordered, logged, initial
        self.begin, self.passes = begin, passes
        self.code = bound.program.code.tolist()
        self.effort = bound.effort
        known = begin(Shared())
        self.data, self.grain = known.data, known.grain
        x, y, z = bound.configuration.block
        self.threads = x * y * z
        self.place: Place | None = None
        """The location of the counter."""
        self.size = self.base = self.step = 0
        """The bytes of the counter, its first value, and the amount that a draw adds."""
        self.kept = 1
        """The number of last segments that distinguish states."""
        self.matters: set[int] = set()
        """Bytes of shared memory that are read before they are written."""
        self.carried: dict[int, frozenset[int]] = {}
        """owners of each array location that a segment reads and an earlier one may have written"""
        self.shared = Shared()
        self.owners: dict[bytes, frozenset[int]] = {}
        """for each state, the latest drawn numbers common to all paths that reach it"""
        self.most = 0
        """The numbers below this may be drawn."""
        self.uneven = self.grown = False
        """true if array contents depend on which CTA draws which number, so that more locations distinguish states"""
        self.spent = self.accessed = 0

    def is_proven(self) -> bool:
        """Return whether each CTA is right with all numbers that it can draw."""
        if not self.ordered or not all(self._draws(pc) for pc in self.ordered):
            return False
        try:
            while not self._explore():
                self.grown = False
            self._judge()
        except _OtherwiseError:
            return False
        return True

    def _draws(self, pc: int) -> bool:
        what, type_ = ATOMICS[NAMES[self.code[pc][0]]]
        return what == "add" and type_[0] == "b" and not self.code[pc][7] & SCOPES

    def _session(self, looking: Looking, logged: frozenset[int]) -> Session:
        put_back(self.bound, self.initial)
        return make_session(self.bound, self.ordered, logged, looking)

    # -- all that a CTA may do ----------------------------------------------------------------------------------------
    def _explore(self) -> bool:
        """Run all segments.  Return whether no new location distinguishes states."""
        self.touched: dict[int, Touch] = {}
        self.held: dict[int, bytes] = {}
        self.effects: dict[int, tuple[str, frozenset[int]]] = {}
        """for each number, how the segment after its draw ends and which locations that segment stores to"""
        self.loaded: dict[int, frozenset[int]] = {}
        """for each array location that a segment reads before writing it, the number of the only segment that does"""
        self.states: dict[bytes, State] = {}
        self.uneven = False
        session = self.session = self._session(Looking(tells=True), self.logged)
        try:
            session.tell_rounds(self.matters)
            self.pending = deque[bytes]()
            self._begin(session.start())
            self.most = max(self.most, self._first_end() + session.ctas)
            while self.pending:
                state = self.states[key := self.pending.popleft()]
                for number in range(len(state.numbers), self.most):
                    self._run_segment(key, state, number)
            needed = self._find_bound()
        finally:
            session.close()
        if self._accesses_counter() or any(touch.conflicts() for touch in self.touched.values()):
            raise _OtherwiseError
        self._find_carried()
        self.grown |= self.shared.grown or needed > self.most
        self.shared.grown, self.most = False, max(needed, self.most)
        return not self.grown

    def _accesses_counter(self) -> bool:
        """Return whether a segment accesses the counter other than by a draw, also one before the first draw."""
        if self.place is None:
            return False
        first, end = self.place[1] - self.grain + 1, self.place[1] + self.size
        return any(first <= at < end for at in self.touched)

    def _find_carried(self) -> None:
        """Find array locations whose contents distinguish states.

        The numbers that a CTA draws grow, and none of its segments before a number accesses what that number owns.
        """
        for at, numbers in self.loaded.items():
            touch = self.touched[at]
            if touch.writes and not touch.owners & numbers and self.carried.get(at) != touch.owners:
                self.carried[at], self.grown = touch.owners, True

    def _find_bound(self) -> int:
        """Return a bound of the numbers.

        A CTA draws at most one number after which no CTA draws again, and no more than the longest path has.
        """
        ctas = self.session.ctas
        bound = max(self.furthest.values(), default=-1) + 1 + ctas
        depth = self._find_depth()
        return bound if depth is None else min(bound, ctas * depth)

    def _begin(self, moved: Sequence[Moved]) -> None:
        session, found = self.session, dict[bytes, State]()
        self.furthest: dict[tuple[bytes, bytes], int] = {}
        for cta, one in enumerate(moved):
            known = self.begin(self.shared)
            state = State(
                cta, None, None, known, Ask(cta, 0, 0, 0, (-1, 0)), (), (), {}, np.zeros(known.total, np.int32), ()
            )
            segment = self._check_segment(state, one, frozenset({-1 - cta}), None)
            if one.status == "done":
                continue
            state.ask = self._ask(cta)
            self._is_counter(state.ask)
            state.saved, state.memory = session.save(cta), session.save_memory()
            state.segments = (segment,)
            state.floors = (self._floor(state),)
            found[self._enter(state, frozenset({-1 - cta}))] = state

    def _ask(self, cta: int) -> Ask:
        asks = self.session.asks(cta)
        if len(asks) != 1:
            raise _OtherwiseError
        return asks[0]

    def _is_counter(self, ask: Ask) -> None:
        """Check that all draws add one amount to one counter."""
        step = self.session.operand(ask)
        if self.place is None:
            self.place, self.step = ask.place, step
            self.size = SIZE[ATOMICS[NAMES[self.code[ask.pc][0]]][1]]
            number, offset = (ask.place[1] >> SEGMENT_SHIFT) - FIRST_ARRAY, ask.place[1] & _OFFSET
            if ask.place[0] >= 0 or not 0 <= number < len(self.initial):
                raise _OtherwiseError
            self.base = int.from_bytes(bytes(self.initial[number][offset : offset + self.size]), "little")
        size = SIZE[ATOMICS[NAMES[self.code[ask.pc][0]]][1]]
        if (ask.place, step, size) != (self.place, self.step, self.size) or not 0 < step < 1 << 20:
            raise _OtherwiseError

    def _first_end(self) -> int:
        """Return the last number of a CTA that draws 0, 1, 2 and so on."""
        if not self.states:
            raise _OtherwiseError
        state = next(iter(self.states.values()))
        session = self.session
        session.load(state.cta, state.saved)
        session.load_memory(state.memory)
        for number in range(int(MOST_SEGMENTS * self.effort)):
            self._is_counter(ask := self._ask(state.cta))
            if self._draw_number(ask, number).status == "done":
                return number
        raise _OtherwiseError

    def _draw_number(self, ask: Ask, number: int) -> Moved:
        """Let a CTA draw a number."""
        value = self.base + self.step * number
        if value >= 1 << 8 * self.size - 1:
            raise _OtherwiseError
        self.session.write(ask.place, value, self.size)
        moved = self.session.go(ask)
        if moved.status not in ("stands", "done") or not all(map(self.passes, moved.findings)):
            raise _OtherwiseError
        return moved

    def _run_segment(self, key: bytes, state: State, number: int) -> None:
        """Run the segment that a number leads to."""
        session, cta = self.session, state.cta
        self.spent += 1
        if self.spent > MOST_SEGMENTS * self.effort or self.accessed > MOST_TOUCHES * self.effort or session.is_spent:
            raise _OtherwiseError
        session.load(cta, state.saved)
        session.load_memory(state.memory)
        moved = self._draw_number(state.ask, number)
        session.spend(1, moved.made)
        child = State(
            cta, None, None, state.known.copy(), state.ask, state.segments, state.floors, dict(state.last),
            state.marks.copy(), (*state.numbers, number),
        )  # fmt: skip
        segment = self._check_segment(child, moved, self.owners[key] | {number}, number)
        self._compare_effects(moved, number)
        if moved.status == "done":
            state.after.setdefault((segment, b""), number)
            return
        child.ask = self._ask(cta)
        self._is_counter(child.ask)
        child.saved, child.memory = session.save(cta), session.save_memory()
        child.segments = (*state.segments, segment)[-self.kept :]
        child.floors = (*state.floors, self._floor(child))[-MOST_DISTANCE:]
        to = self._enter(child, self.owners[key] | {number})
        state.after.setdefault((segment, to), number)
        self.furthest[segment, to] = max(number, self.furthest.get((segment, to), 0))

    def _compare_effects(self, moved: Moved, number: int) -> None:
        """Record that array contents depend on which CTA draws a number.  They do if, after a draw, a CTA stores to
        other locations, ends instead of drawing again, or performs atomics, whose operands are not tracked."""
        stored = set[int]()
        for made in moved.made:
            if made.event.kind == "access" and made.event.pc in self.ordered:
                continue
            for start, size, _, writes, kind in self._sides(made):
                if writes and start >> SEGMENT_SHIFT >= FIRST_ARRAY:
                    stored.update(range(start, start + size))
                    self.uneven |= kind != _PLAIN
        effects = moved.status, frozenset(stored)
        self.uneven |= self.effects.setdefault(number, effects) != effects

    def _enter(self, state: State, own: frozenset[int]) -> bytes:
        """Record a state and return its key.  `own` has the numbers that every path to the state has drawn so far:
        those of the state before, to which several CTAs and numbers may lead, and the latest number."""
        hashed = hashlib.blake2b(self.session.digest(state.cta), digest_size=16)
        hashed.update(repr((state.ask[1:], state.segments)).encode())
        last = {*state.numbers[-self.kept - 1 :]}
        for at, owners in self.carried.items():
            if owners & last or min(owners, default=-1) < 0:
                hashed.update(at.to_bytes(8, "little") + self._read_array(at))
        key = hashed.digest()
        known = self.owners.get(key)
        self.owners[key] = own if known is None else known & own
        self.grown |= known is not None and not known <= own
        if key not in self.states:
            self.states[key] = state
            self.pending.append(key)
        return key

    def _find_depth(self) -> int | None:
        """Return the length of the longest path, or None if there are cycles; untried states end paths."""
        depths: dict[bytes, int | None] = {b"": 0}
        stack = [*self.states]
        while stack:
            key = stack[-1]
            if depths.get(key) is not None:
                stack.pop()
                continue
            more = {to for _, to in self.states[key].after}
            if key in depths and any(depths.get(to, 0) is None for to in more):
                return None
            depths[key] = None
            missing = [to for to in more if depths.get(to) is None]
            if any(to in depths for to in missing):
                return None
            if missing:
                stack += missing
            else:
                depths[key] = 1 + max((depth for to in more if (depth := depths[to]) is not None), default=0)
                stack.pop()
        return max(depth for depth in depths.values() if depth is not None)

    # -- what a segment does ------------------------------------------------------------------------------------------
    def _check_segment(self, state: State, moved: Moved, owners: frozenset[int], drawn: int | None) -> bytes:
        """Check a segment.  Return its name, which does not depend on array locations."""
        if not all(map(self.passes, moved.findings)):
            raise _OtherwiseError
        made = [one._replace(event=one.event._replace(cta=0)) for one in moved.made]
        position = len(state.numbers)
        hashed = hashlib.blake2b(moved.status.encode(), digest_size=16)
        fresh, stored = set[int](), set[int]()
        for number, one in enumerate(made):
            self._look(state, one, position)
            for _ in state.known.apply(0, [one], number + position * _EVENTS):
                raise _OtherwiseError
            hashed.update(repr(self._shape(one)).encode())
            self._note_shared(one, fresh)
            self._note_arrays(one, owners, drawn, stored)
        if state.known.unclear or state.known.loose:
            raise _OtherwiseError
        return hashed.digest()

    def _look(self, state: State, made: Made, position: int) -> None:
        """Find the last segments that contain operations that a thread has not observed."""
        event, known = made.event, state.known
        if event.kind not in _BY_THREADS:
            return
        threads = [t for t in known._threads(event, event.lanes) if t < self.threads]
        for thread in threads:
            gap = position - state.last.get(thread, position)
            state.last[thread] = position
            if gap > MOST_DISTANCE and event.kind == "await":
                raise _OtherwiseError
            if event.kind == "await" and gap > self.kept:
                self.kept, self.grown = gap, True
        if event.kind in ("await", "landed"):
            return
        state.marks[threads] = event.interval
        if not state.floors:
            return
        rows = known._wide(0, known.width)[threads]
        known_of = [self._has_observed(rows, threads, floor) for floor in reversed(state.floors)]
        distance = next((n for n, known_all in enumerate(known_of, 1) if known_all), len(known_of) + 1)
        if distance > MOST_DISTANCE:
            raise _OtherwiseError
        if distance > self.kept:
            self.kept, self.grown = distance, True

    def _has_observed(self, rows: Any, threads: list[Thread], floor: Any) -> bool:
        """Return whether threads have observed all operations of others up to a floor."""
        missing = rows[:, : len(floor)] < floor
        missing[np.arange(len(threads)), threads] = False
        return not missing.any()

    def _floor(self, state: State) -> Any:
        """Return the clock of all that threads and copies have done."""
        floor = np.zeros(state.known.width, np.int32)
        floor[: len(state.marks)] = state.marks
        floor[list(state.known.issued)] = 1
        return floor

    def _shape(self, made: Made) -> object:
        event = made.event
        if event.kind == "access":
            inside = tuple(at for at in made.addresses if (at[1] & ~ADDRESS_WRAPPED) >> SEGMENT_SHIFT == SHARED)
            return event.warp, event.pc, event.lanes, inside
        place, generation = event.place, event.generation
        if event.kind == "copy":
            place, generation = (at if at >> SEGMENT_SHIFT == SHARED else -1 for at in (place, generation))
        elif event.kind == "atomic":
            place = generation = 0
        elif event.kind in _OF_PHASES:
            generation &= 1
        elif event.kind in ("arrive", "sync", "complete"):
            generation = 0
        return event.kind, event.warp, event.pc, event.lanes, place, generation, event.amount

    def _sides(self, made: Made) -> Iterator[tuple[int, int, bool, bool, int]]:
        """Yield the ranges that an event accesses: start, bytes, whether it reads, whether it writes, kind."""
        event = made.event
        if event.kind == "copy":
            reduces = effects_of(NAMES[self.code[event.pc][0]]).moves.combines
            yield event.generation, event.amount, True, False, _PLAIN
            yield event.place, event.amount, reduces, True, _REDUCED if reduces else _PLAIN
        elif event.kind == "access":
            atomic, stores, size = memory_effect(self.code[event.pc], data=event.pc in self.data)
            kind = _ATOMIC if atomic and not self.code[event.pc][7] & SCOPES else _PLAIN
            for _, address in made.addresses:
                yield address & ~ADDRESS_WRAPPED, size, atomic or not stores, atomic or stores, kind

    def _note_shared(self, made: Made, fresh: set[int]) -> None:
        """Record the bytes of shared memory that are read before they are written."""
        for start, size, reads, writes, _ in self._sides(made):
            if start >> SEGMENT_SHIFT != SHARED:
                continue
            there = range(start & _OFFSET, (start & _OFFSET) + size)
            if reads and not fresh.issuperset(there) and not self.matters.issuperset(there):
                self.matters.update(byte for byte in there if byte not in fresh)
                self.grown = True
            if writes:
                fresh.update(there)

    def _note_arrays(self, made: Made, owners: frozenset[int], drawn: int | None, stored: set[int]) -> None:
        """Record the array locations that a segment accesses; `stored` has those that it has stored to."""
        if made.event.kind == "access" and made.event.pc in self.ordered:
            return
        grain = self.grain
        for start, size, reads, writes, kind in self._sides(made):
            if start >> SEGMENT_SHIFT < FIRST_ARRAY:
                continue
            for at in range(start - start % grain, start + size, grain):
                self.accessed += 1
                known = self.touched.get(at)
                if known is not None:
                    self.touched[at] = Touch(known.owners & owners, known.writes or writes, known.kinds | kind)
                else:
                    self.touched[at] = Touch(owners, writes, kind)
                if reads and kind == _PLAIN and drawn is not None and at not in stored:
                    self.loaded[at] = self.loaded.get(at, frozenset({drawn})) & {drawn}
                if writes and kind == _PLAIN and start <= at and at + grain <= start + size:
                    stored.add(at)
                if writes and kind == _PLAIN:
                    value = self._read_array(at)
                    self.uneven |= self.held.setdefault(at, value) != value

    def _read_array(self, at: int) -> bytes:
        number, offset = (at >> SEGMENT_SHIFT) - FIRST_ARRAY, at & _OFFSET
        return bytes(self.bound.segments[number][0][offset : offset + self.grain])

    # -- judging ------------------------------------------------------------------------------------------------------
    def _judge(self) -> None:
        """Judge a set of runs of one CTA that together contain each segment after each state."""
        left = {(key, step) for key, state in self.states.items() for step in state.after}
        ends, runs = self._find_paths_to_end(), 0
        for key, state in self.states.items():
            for step in state.after:
                if (key, step) in left:
                    runs += 1
                    self.session.spend(1)
                    if runs > MOST_RUNS * self.effort or self.session.is_spent:
                        raise _OtherwiseError
                    self._run(state.cta, (*state.numbers, *self._find_path(key, step, left, ends)))

    def _find_paths_to_end(self) -> dict[bytes, tuple[bytes, bytes]]:
        """Return for each state the first step of a shortest path to the end."""
        found: dict[bytes, tuple[bytes, bytes]] = {}
        ended = {b""}
        while True:
            more = {
                key: step for key, state in self.states.items() if key not in found
                for step in state.after if step[1] in ended
            }  # fmt: skip
            if not more:
                return found
            found |= more
            ended |= more.keys()

    def _find_path(
        self, key: bytes, step: tuple[bytes, bytes], left: set[tuple[bytes, tuple[bytes, bytes]]],
        ends: dict[bytes, tuple[bytes, bytes]],
    ) -> Iterator[int]:  # fmt: skip
        """Yield the numbers of a path to the end that starts with steps that are left."""
        while True:
            left.discard((key, step))
            yield self.states[key].after[step]
            key = step[1]
            if not key:
                return
            if key not in ends:
                raise _OtherwiseError
            fresh = [step for step in self.states[key].after if step[1] and (key, step) in left]
            step = fresh[0] if fresh else ends[key]
            last = [step for step in self.states[key].after if not step[1] and (key, step) in left]
            if not fresh and last:
                step = last[0]

    def _run(self, cta: int, numbers: tuple[int, ...]) -> None:
        looking = Looking(races=True)
        while True:
            session = self.session = self._session(looking, frozenset())
            try:
                moved = session.start()[cta]
                for number in numbers:
                    asks = session.asks(cta)
                    if moved.status != "stands" or len(asks) != 1:
                        raise _OtherwiseError
                    moved = self._draw_number(asks[0], number)
                suspects = session.suspects()
            finally:
                session.close()
            if moved.status != "done" or not all(map(self.passes, moved.findings)):
                raise _OtherwiseError
            if not suspects or looking.suspects is not None:
                return
            looking = Looking(True, suspects)
