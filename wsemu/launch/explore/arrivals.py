"""Decide launches in which each CTA performs one strong access to a common counter, and only the CTA that arrives last
behaves differently.

N CTAs that arrive at a counter have N! orders, but each CTA has only two behaviors: one if it arrives last, and one if
it does not.  So each CTA is run twice from the position before its access: with the initial value of the counter, and
with its value after all other arrivals.  This is a value-based reduction (Agarwal et al., "Stateless Model Checking
Under a Reads-Value-From Equivalence", CAV 2021).  The program itself shows that a CTA behaves alike for all results but
the last: the result of the atomic is only compared with known numbers (`linear.py`).

What CTAs do before their arrivals is unordered and must not conflict; the same holds for what they do after them if
they do not arrive last.  Actions of the last CTA after its arrival may conflict with actions of others before their
arrivals if the other CTA's access released them and the last CTA acquired them.  Both conditions are checked in each
CTA alone: columns of its clocks represent what all other CTAs release (`threads.py`).
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.launch.explore.arrays import copy_arrays, put_back
from wsemu.launch.explore.session import Looking
from wsemu.launch.explore.sessions import make_session
from wsemu.model.data import NamedTuple
from wsemu.model.isa import (
    ADDRESS_WRAPPED,
    ATOMICS,
    FIRST_ARRAY,
    LANES,
    LOCAL,
    NAMES,
    OPERATIONS,
    SEGMENT_SHIFT,
    SHARED,
    SIZE,
    access_shape,
)
from wsemu.proof.happens_before import uncounted_barriers
from wsemu.proof.linear import LOST, Compared, Grown, Linear
from wsemu.proof.missing import is_fresh
from wsemu.proof.reaching_stores import NOTHING, LastWriters
from wsemu.proof.slots import compares
from wsemu.proof.taint import Analysis
from wsemu.proof.threads import Imagined, Knowledge, Shared, memory_effect

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy.typing as npt

    from wsemu.launch.explore.session import Ask, Moved, Session
    from wsemu.model.bound import Bound
    from wsemu.proof.reaching_stores import Reaching
    from wsemu.proof.threads import Made, MemoryEffect, Place

MOST_CTAS, MOST_BYTES = 4_096, 1 << 31
"""maximum number of CTAs; maximum number of bytes of arrays that are restored, for all CTAs together"""
RACES = ("race", "intra-warp-race")
_WIDE = -1


class Left(NamedTuple):
    """The result of the analysis."""

    results: int
    """number of results that arrays may hold at the end"""
    end: Any
    """contents of the arrays after an interleaving that ends"""
    unfenced: dict[int, tuple[Ask, int]]
    """loads after the last arrival that lack a fence, each with that arrival and an address"""


class Touch(NamedTuple):
    """An access of a CTA to some bytes."""

    cta: int
    writes: bool
    atomic: int
    """size of an atomic in bytes; 0 for a plain access"""
    ordered: tuple[bool, bool, bool]
    """three flags: before the arrival, whether a release orders the access, whether a `fence.sc` does, and whether the
    access is the arrival itself; after the last arrival, whether an acquire orders it, whether a `fence.sc` does, and
    whether it is the arrival"""
    counter: tuple[int, int] | None
    """location at which its CTA arrives"""
    fresh: tuple[bool, bool, bool] = (False, False, False)
    """these three for a load that bypasses the caches, as if a fence preceded it"""
    pc: int = -1
    """instruction of such a load"""

    def conflicts(self, other: Touch) -> bool:
        """Return whether two accesses to the same bytes conflict: one of them writes, and they are not atomic with each
        other."""
        return (self.writes or other.writes) and not (self.atomic and self.atomic == other.atomic)

    def comes_after(self, other: Touch, *, fresh: bool = False) -> bool:
        """Return whether an access after the last arrival at a counter is ordered after an access before another
        arrival there.  `fresh` assumes a fence."""
        acquired = any(a and b for a, b in zip(self.fresh if fresh else self.ordered, other.ordered, strict=True))
        return acquired and self.counter == other.counter


class Uses(NamedTuple):
    """The uses of the results of atomics."""

    compared: dict[int, list[Compared]]
    """atomic -> the comparisons of its result"""
    stored: set[int]
    """stores that leave results of atomics in memory"""


def find_comparisons(bound: Bound, analysis: Analysis, known: dict[int, int]) -> Uses | None:
    """Return the uses of the results of atomics if they are only compared; otherwise None."""
    linear = Linear(bound.program, analysis, known)
    found, stored = {pc: list[Compared]() for pc in analysis._targets}, set[int]()
    for step, rows, bits in linear.states():
        if step.kind == "load" and linear.loads(step, rows, bits) == LOST:
            return None
        if any(rows.get(row) == LOST for row in step.reads):
            return None
        if not any(isinstance(rows.get(row), Grown) for row in step.reads):
            continue
        if step.address >= 0 and isinstance(rows.get(step.address), Grown):
            return None
        if step.kind == "store":
            if not isinstance(rows.get(linear.code[step.pc][2]), Grown) or not linear.keeps_grown(step, bits):
                return None
            stored.add(step.pc)
            continue
        held = linear._result(step, linear.code[step.pc], rows)
        if isinstance(held, Compared):
            if held.grown.low is None or held.grown.low != held.grown.high:
                return None
            found[held.grown.atomic].append(held)
        elif not isinstance(held, Grown):
            return None
    return Uses(found, stored)


class Runs(NamedTuple):
    """The runs of the CTAs."""

    asks: list[Ask | None]
    """the access by which each CTA arrives; None for a CTA without one"""
    values: dict[Place, tuple[int, int]]
    """counter -> what the first and the last arrival read from it"""
    alone: set[Place]
    """counters at which one CTA arrives"""
    starts: list[Moved]
    """each CTA up to its arrival"""
    early: list[Moved]
    """each CTA after it, if it is not the last one"""
    last: dict[int, Moved]
    """CTA -> its run after its arrival, if it is the last one"""
    memory: Any
    """arrays before the last arrival"""


class Arrivals:
    """A launch whose CTAs each arrive once: each CTA is run as the last one, and as one that is not."""

    def __init__(self, bound: Bound, ordered: frozenset[int], logged: frozenset[int], known: dict[int, int],
                 segment_of: Any, data: frozenset[int] = frozenset()) -> None:  # fmt: skip
        """`data` are strong loads and stores that count as plain ones."""
        self.data = data
        self.unfenced: dict[int, tuple[Ask, int]] = {}
        self.bound, self.ordered, self.logged, self.known = bound, ordered, logged, known
        self.segment_of = segment_of
        self.code = bound.program.code.tolist()
        x, y, z = bound.configuration.block
        begin = functools.partial(
            Knowledge, bound.program, 1, x * y * z, lockstep=bound.settings.lockstep,
            uncounted=uncounted_barriers(bound.program), ordered=ordered, others=bound.configuration.ctas > 1,
            data=data,
        )  # fmt: skip
        self.begin = begin
        self.shared = Shared()
        self.known_shapes: dict[tuple[Any, ...], list[Any] | None] = {}
        """judgements of CTAs by their shapes"""
        self.initial = copy_arrays(bound)
        self.results: list[tuple[int, npt.NDArray[np.int64]]] = []
        """for each counter, the instruction of its arrivals, and their results in order"""
        self.repeated: set[int] = set()
        """stores of which several lanes write the same location"""
        self.before: dict[tuple[int, int], list[Touch]] = {}
        """the unordered accesses to each range of bytes"""
        self.behind: dict[int, list[Touch]] = {}
        """accesses of the last arrivals, each at its counter"""

    def decide(self) -> Left | None:
        """Return the result if every interleaving ends without a failure; None if this method cannot decide it."""
        if not self.ordered or self.bound.configuration.ctas > MOST_CTAS:
            return None
        held = sum(data.nbytes for data, writable in self.bound.segments if writable)
        if held * self.bound.configuration.ctas > MOST_BYTES:
            return None
        analysis = Analysis(self.bound.program, [1] * len(self.code), sorted(self.ordered), self.segment_of)
        uses = find_comparisons(self.bound, analysis, self.known)
        if uses is None and not self._may_follow_stores():
            return None
        session = make_session(self.bound, self.ordered, self.logged)
        try:
            left = self._try_orders(session, uses)
        finally:
            session.close()
        if left is not None and uses is None:
            uses = self._compare_in_runs()
        if left is None or uses is None or not self._agree(uses):
            return None
        return left if not self.repeated or self._store_one_value(uses) else None

    # -- results that pass through memory that also holds other values ------------------------------------------------
    def _may_follow_stores(self) -> bool:
        """Return whether it may help to follow values from each store to the loads that read from it."""
        return self.bound.heap is None and self._compare(NOTHING) is not None

    def _compare(self, reaching: Reaching) -> Uses | None:
        """Return the uses of each atomic's result if loads read from these stores; None if there are others."""
        program = self.bound.program
        analysis = Analysis(program, [1] * len(self.code), sorted(self.ordered), self.segment_of, reaching=reaching)
        return find_comparisons(self.bound, analysis, self.known)

    def _compare_in_runs(self) -> Uses | None:
        """Return the uses of each atomic's result if loads read as they do in the runs of the CTAs."""
        writers = LastWriters(self.bound.program)
        for cta, (start, rest) in enumerate(zip(self.runs.starts, self.runs.early, strict=True)):
            writers.add_all(cta, [*start.made, *rest.made])
        for cta, rest in self.runs.last.items():
            path = writers.fork()
            path.add_all(cta, [*self.runs.starts[cta].made, *rest.made])
            writers.room = path.room
        reaching = writers.reaching
        return None if reaching is None else self._compare(reaching)

    def _agree(self, uses: Uses) -> bool:
        """Return whether each comparison has one outcome for all arrivals but the last."""
        return all(
            len(set(compares(one, found)[:-1].tolist())) <= 1
            for pc, found in self.results for one in uses.compared[pc]
        )  # fmt: skip

    # -- lanes of one store that write one location -------------------------------------------------------------------
    def _store_one_value(self, uses: Uses) -> bool:
        """Return whether lanes of one store that write one location write the same value, in each run of a CTA."""
        if self.repeated & uses.stored:
            return False
        return self._find_no_conflict(last=False) and self._find_no_conflict(last=True)

    def _find_no_conflict(self, *, last: bool) -> bool:
        """Return whether an engine finds no conflict of lanes in runs of the CTAs, with all its checks."""
        looking = Looking(races=True)
        while True:
            put_back(self.bound, self.initial)
            session = make_session(self.bound, self.ordered, frozenset(), looking)
            try:
                found = [*self._repeat_runs(session, last=last)]
                suspects = session.suspects()
            finally:
                session.close()
            if any(raw.code in RACES for moved in found for raw in moved.findings):
                return False
            if not suspects or looking.suspects is not None:
                return True
            looking = Looking(True, suspects)

    def _repeat_runs(self, session: Session, *, last: bool) -> Iterator[Moved]:
        """Yield the parts of runs of all CTAs, up to their arrivals and after them."""
        yield from session.start()
        for ask in self.runs.asks:
            if ask is not None and (last or ask.place not in self.runs.alone):
                if last:
                    session.load_memory(self.runs.memory)
                session.write(ask.place, self.runs.values[ask.place][last], self._size(ask.pc))
                yield session.go(ask)

    # -- running ------------------------------------------------------------------------------------------------------
    def _try_orders(self, session: Session, uses: Uses | None) -> Left | None:
        moved = session.start()
        asks: list[Ask | None] = []
        for cta, one in enumerate(moved):
            standing = session.asks(cta)
            if one.findings or one.status not in ("stands", "done") or len(standing) != (one.status == "stands"):
                return None
            asks.append(standing[0] if standing else None)
        places = {ask.place for ask in asks if ask is not None}
        found = {place: self._find_results(session, [a for a in asks if a and a.place == place])
                 for place in places if place[0] < 0}  # fmt: skip
        results = {place: one for place, one in found.items() if one is not None}
        if len(results) != len(places):
            return None
        self.results = list(results.values())
        if uses is not None and not self._agree(uses):
            return None
        values = {place: (int(one[0]), int(one[-1])) for place, (_, one) in results.items()}
        saved = [session.save(cta) for cta in range(session.ctas)]
        alone = {place for place in places if sum(ask is not None and ask.place == place for ask in asks) == 1}
        early = [
            self._run_cta(session, None if ask is None or ask.place in alone else ask, values, last=False)
            for ask in asks
        ]
        if any(one is None or self._stores(one.made) for one in early):
            return None
        memory = session.save_memory()
        self.runs = Runs(asks, values, alone, moved, [one for one in early if one is not None], {}, memory)
        for cta, (start, rest) in enumerate(zip(moved, early, strict=True)):
            assert rest is not None
            self._arrives_alone(cta, asks[cta], alone)
            if not self._record_last(cta, asks[cta], [*start.made, *rest.made], _arrival(start.made, rest.made)):
                return None
        if not self._are_free_of_conflicts():
            return None
        return self._decide_last(session, moved, asks, values, saved, memory)

    def _decide_last(self, session: Session, moved: list[Moved], asks: list[Ask | None], values: Any, saved: Any,
              memory: Any) -> Left | None:  # fmt: skip
        ends, end, seen = set[bytes](), None, set[int]()
        for cta, ask in enumerate(asks):
            if ask is None:
                continue
            session.load(cta, saved[cta])
            session.load_memory(memory)
            rest = self._run_cta(session, ask, values, last=True)
            if rest is not None:
                self.runs.last[cta] = rest
            if rest is None or not self._fits(cta, ask, moved[cta].made, rest.made, seen):
                return None
            ends.add(session.digest_memory())
            end = end or session.save_memory()
        return Left(len(ends), end, self.unfenced)

    def _run_cta(self, session: Session, ask: Ask | None, values: Any, *, last: bool) -> Moved | None:
        """Run a CTA from its arrival to its end.  Return None if it does not end."""
        from wsemu.launch.explore.session import Moved

        if ask is None:
            return Moved([], [], "done")
        session.write(ask.place, values[ask.place][last], self._size(ask.pc))
        moved = session.go(ask)
        return moved if moved.status == "done" and not moved.findings else None

    def _size(self, pc: int) -> int:
        return SIZE[ATOMICS[NAMES[self.code[pc][0]]][1]]

    def _find_results(self, session: Session, asks: list[Ask]) -> tuple[int, npt.NDArray[np.int64]] | None:
        """Return the instruction of all arrivals at a counter, and their results in order; None if they are not
        alike."""
        pc, place = asks[0].pc, asks[0].place
        number = (place[1] >> SEGMENT_SHIFT) - FIRST_ARRAY
        operands = {session.operand(ask) for ask in asks}
        if {ask.pc for ask in asks} != {pc} or len(operands) != 1 or not 0 <= number < len(self.bound.segments):
            return None
        what, size, operand = ATOMICS[NAMES[self.code[pc][0]]][0], self._size(pc), operands.pop()
        offset = place[1] & (1 << SEGMENT_SHIFT) - 1
        base = int.from_bytes(bytes(self.bound.segments[number][0][offset : offset + size]), "little")
        steps = np.arange(len(asks), dtype=np.int64)
        if what == "inc" and base + len(asks) - 1 <= operand:
            return pc, base + steps
        if what == "add" and 0 < operand < 1 << 20 and base + operand * len(asks) < 1 << 31:
            return pc, base + operand * steps
        return None

    def _memory_effect(self, pc: int) -> MemoryEffect:
        return memory_effect(self.code[pc], data=pc in self.data)

    def _stores(self, made: Iterable[Made]) -> bool:
        """Return whether stores other than the arrival and unordered atomics write to arrays."""
        return any(
            one.event.kind == "access" and self._memory_effect(one.event.pc)[:2] == (False, True)
            and any(address >> SEGMENT_SHIFT not in (SHARED, LOCAL) for _, address in one.addresses)
            for one in made
        )  # fmt: skip

    # -- judging ------------------------------------------------------------------------------------------------------
    def _judge_alone(self, made: list[Made], arrival: int, ask: Ask | None, *, last: bool) -> list[Any] | None:
        """Return what a CTA has observed of other CTAs at each lane's access and at each event, or None if the CTA
        races with itself."""
        key = self._shape(made, arrival, ask, last)
        if key not in self.known_shapes:
            self.known_shapes[key] = self._judge_arrival(made, arrival, ask, last)
        return self.known_shapes[key]

    def _shape(self, made: list[Made], arrival: int, ask: Ask | None, last: bool) -> tuple[Any, ...]:
        """Return the facts that decide the races within a CTA: its events, and which of their addresses are equal."""
        number: dict[int, int] = {} if ask is None else {ask.place[1] // self.grain: 0}
        told: list[Any] = [arrival, last]
        for one in made:
            event = one.event
            if event.kind != "access":
                parts = event.lanes if event.kind in ("arrive", "sync") else 0
                place = 0 if event.kind == "atomic" else event.place
                told.append((event.kind, event.warp, event.interval, event.pc, place, event.generation, parts))
                continue
            units = tuple(
                (number.setdefault((at & ~ADDRESS_WRAPPED) // self.grain, len(number)), at & ADDRESS_WRAPPED)
                if at >> SEGMENT_SHIFT != SHARED else at for _, at in one.addresses
            )  # fmt: skip
            told.append((event.warp, event.interval, event.pc, event.lanes, one.wrote, units))
        return tuple(told)

    def _judge_arrival(self, made: list[Made], arrival: int, ask: Ask | None, last: bool) -> list[Any] | None:
        shared = self.shared
        while True:
            shared.grown = False
            known = self.begin(shared)
            fenced = self.begin(shared, imagined=Imagined(self.ordered))
            columns = [known.width, known.width + 1, known.width + 2]
            known.width, fenced.width = known.width + 3, fenced.width + 3
            facts: list[Any] = []
            released: tuple[Any, Any] = None, None
            for n, one in enumerate(made):
                if n == arrival and ask is not None and last:
                    self._acquire_others(known, ask, columns)
                    self._acquire_others(fenced, ask, columns)
                own = [one._replace(event=one.event._replace(cta=0))]
                known.step = fenced.step = 0
                if list(known.apply(0, own, n)):
                    return None
                self.repeated.update(known.unclear)
                known.unclear = ()
                if last:
                    list(fenced.apply(0, own, n))
                first = one.event.warp * LANES
                kept = [k._wide(0, k.width)[first : first + LANES, columns] for k in (known, fenced)]
                facts.append(np.concatenate(kept, axis=1) if one.event.kind == "access" else None)
                if n == arrival and ask is not None and not last:
                    released = self._released_rows(known, ask)
            if not shared.grown:
                return facts if last else self._mark_released(made, arrival, released)

    def _acquire_others(self, known: Knowledge, ask: Ask, columns: list[int]) -> None:
        """Let all others have arrived: by release, by `fence.sc`, and as writes that are observed."""
        from wsemu.proof.threads import Location

        rows = np.zeros((2, known.width), np.int32)
        rows[0, columns[0]] = rows[1, columns[1]] = 1
        known.locations[ask.place] = Location({columns[2]: 1}, {_WIDE: rows[0]}, {_WIDE: rows[1]})

    def _released_rows(self, known: Knowledge, ask: Ask) -> tuple[Any, Any]:
        location = known.locations[ask.place]
        return location.given.get(_WIDE), location.written.get(_WIDE)

    def _mark_released(self, made: list[Made], arrival: int, released: tuple[Any, Any]) -> list[Any]:
        """Return, for each event and lane, whether its effects are released."""
        facts: list[Any] = []
        for n, one in enumerate(made):
            found = np.zeros((LANES, 3), bool)
            first = one.event.warp * LANES
            for k, row in enumerate(released):
                if row is not None and n < arrival:
                    there = row[first : first + LANES]
                    found[: len(there), k] = there >= one.event.interval
            found[:, 2] = n == arrival
            facts.append(found)
        return facts

    def _touches(
        self, cta: int, ask: Ask | None, made: Iterable[tuple[Made, Any]]
    ) -> Iterable[tuple[tuple[int, int], Touch]]:
        for one, facts in made:
            if one.event.kind != "access":
                continue
            atomic, store, size = self._memory_effect(one.event.pc)
            fresh = facts.shape[1] > 3 and not atomic and not store and is_fresh(self.bound.program, one.event.pc)
            for lane, address in one.addresses:
                address &= ~ADDRESS_WRAPPED
                if address >> SEGMENT_SHIFT in (SHARED, LOCAL):
                    continue
                told = [bool(fact) for fact in facts[lane]]
                counter = None if ask is None else ask.place
                touch = Touch(cta, store or atomic, size if atomic else 0, (told[0], told[1], told[2]), counter)
                if fresh:
                    touch = touch._replace(fresh=(told[3], told[4], told[5]), pc=one.event.pc)
                for start in range(address, address + size, self.grain):
                    yield (size, start), touch

    @functools.cached_property
    def grain(self) -> int:
        kinds = ("load", "store", "atomic")
        found = [name for fields in self.code if OPERATIONS[name := NAMES[fields[0]]].kind in kinds]
        return min(access_shape(n)[1] // (int(n.split(".")[1][1:]) if n.split(".")[1][:1] == "v" else 1) for n in found)

    def _record_last(self, cta: int, ask: Ask | None, made: list[Made], arrival: int) -> bool:
        facts = self._judge_alone(made, arrival, ask, last=False)
        if facts is None:
            return False
        for (_, start), touch in self._touches(cta, ask, zip(made, facts, strict=True)):
            there = self.before.setdefault((-1, start), [])
            if touch not in there:
                there.append(touch)
        return True

    def _arrives_alone(self, cta: int, ask: Ask | None, alone: set[tuple[int, int]]) -> None:
        """Record the arrival of a CTA at a counter of its own, which others may access like an array."""
        if ask is not None and ask.place in alone:
            size = self._size(ask.pc)
            for start in range(ask.place[1], ask.place[1] + size, self.grain):
                self.before.setdefault((-1, start), []).append(Touch(cta, True, size, (False, False, False), ask.place))

    def _are_free_of_conflicts(self) -> bool:
        """Return whether none of the accesses in arbitrary order conflict."""
        for there in self.before.values():
            if len({touch.cta for touch in there}) == 1 or not any(touch.writes for touch in there):
                continue
            if len({touch.atomic for touch in there}) != 1 or not there[0].atomic:
                return False
        return True

    def _fits(self, cta: int, ask: Ask, start: list[Made], rest: list[Made], seen: set[int]) -> bool:
        """Return whether each conflicting access of the last CTA is ordered after the access with which it
        conflicts."""
        arrival = _arrival(start, rest)
        facts = self._judge_alone([*start, *rest], arrival, ask, last=True)
        if facts is None:
            return False
        after = list(zip([*start, *rest], facts, strict=True))[arrival + 1 :]
        told = hash((ask.place, *((one.event.pc, one.addresses, f is not None and f.tobytes()) for one, f in after)))
        if told in seen:  # the same as another did, for whom all were others
            return True
        whole = True
        for (_, at), touch in self._touches(cta, ask, after):
            others = self.behind.setdefault(at, [])
            if any(touch.conflicts(other) for other in others if other.counter != touch.counter):
                return False  # the last CTAs at two counters are not ordered
            if touch not in others:
                others.append(touch)
            for other in self.before.get((-1, at), ()):
                if touch.comes_after(other) or not touch.conflicts(other):
                    continue
                if touch.comes_after(other, fresh=True):
                    self.unfenced.setdefault(touch.pc, (ask, at))
                    continue
                if other.cta != cta:
                    return False
                whole = False
        if whole:
            seen.add(told)
        return True


def _arrival(start: list[Made], rest: list[Made]) -> int:
    """Return the number of the event by which a CTA arrives: its first access in the rest of its run."""
    return len(start) + next((n for n, one in enumerate(rest) if one.event.kind == "access"), len(rest))
