"""Read a trace for one finding: find its executions, what their warps have observed of each other, and a schedule that
shows the finding.

The clocks are those of the engines for barriers only: see `happens_before`.
"""

from __future__ import annotations

import functools
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from wsemu.evidence.source_view import iteration, ordinal
from wsemu.evidence.witness_clocks import Clocks, Knowledge
from wsemu.model.data import NamedTuple, dataclass
from wsemu.model.isa import ADDRESS_WRAPPED, LANES, MULTICASTS, NAMES, OFFSET_MASK, step_word
from wsemu.model.outcome import ALL_LANES, FENCES, EventKind
from wsemu.proof.happens_before import HappensBefore, uncounted_barriers
from wsemu.proof.phase_edges import PhaseOrder, relaxed_operations

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from wsemu.evidence.places import Places
    from wsemu.model.finding import Step
    from wsemu.model.outcome import Event, Trace

_ENDS_INTERVAL = ("arrive", "sync", "warp", *FENCES, "arrive_on", "await")
OF_PHASES: tuple[EventKind, ...] = ("init", "inval", "arrive_on", "expect", "credit", "await")
"""operations on phases; the credit of a copy belongs to the location that issued the copy"""
_ORDERS: tuple[EventKind, ...] = ("arrive", "sync", "exit", *OF_PHASES, "copy")
_BY_LANES: tuple[EventKind, ...] = (*OF_PHASES, "copy")
"""kinds of events of which a single execution of an instruction may have several, for different lanes"""
_EXECUTIONS: tuple[EventKind, ...] = ("access", "atomic", "copy")
_MOST_STEPS = 6
"""maximum number of steps before the two operations of a finding"""


class Access(NamedTuple):
    """One execution of an instruction by a warp."""

    cta: int
    warp: int
    interval: int
    pc: int
    address: int
    lanes: int = ALL_LANES
    """lanes that performed the access; at least one of them touches the address"""


class Counted(NamedTuple):
    """The position at which a barrier operation is counted."""

    generation: int
    arrived: int
    """threads of the generation with it"""
    expected: int
    """number of threads that complete the generation; 0 if unknown"""


@dataclass(slots=True)
class _Open:
    """The open generation of a barrier."""

    generation: int = 0
    arrived: int = 0
    expected: int = 0


class Witness:
    """The part of a trace that two operations, in one CTA or two, are explained by."""

    def __init__(self, places: Places, trace: Trace, ctas: Collection[int]) -> None:
        self.places = places
        self.trace = trace
        clusters = {places.cluster_index(cta) for cta in ctas}
        several = places.outcome.group != (1, 1, 1)
        self.events = [
            event
            for event in trace.events
            if event.cta in ctas or (several and places.cluster_index(event.cta) in clusters)
        ]
        self.complete = trace.complete
        self.asynchronous = any(event.kind in (*OF_PHASES, "copy", "landed") for event in self.events)
        """true if schedules must follow the order of the run, because clocks of warps do not determine which operations
        others need"""
        self.uncounted = uncounted_barriers(places.program)
        self.endings = {(e.cta, e.warp, e.interval): n for n, e in enumerate(self.events) if e.kind in _ENDS_INTERVAL}
        self._clocks: dict[int, Clocks] = {}

    # -- which execution ----------------------------------------------------------------------------------------------

    @functools.cached_property
    def _executions(self) -> dict[tuple[EventKind, int, int, int], list[int]]:
        found: defaultdict[tuple[EventKind, int, int, int], list[int]] = defaultdict(list)
        for n, event in enumerate(self.events):
            if event.kind in _EXECUTIONS and self._begins[n]:
                found[event.kind, event.cta, event.warp, event.pc].append(n)
        return dict(found)

    def begins(self, position: int) -> bool:
        """Return whether an event is the first of its kind in an execution of an instruction."""
        return self._begins[position]

    @functools.cached_property
    def _begins(self) -> list[bool]:
        """Return for each event whether it is the first one of its kind in an execution of an instruction.

        The events of one execution are adjacent: one for each lane or each object, of disjoint lanes, or for a
        multicast one for each CTA.
        """
        return [first for first, _ in self._parts_of_executions]

    @functools.cached_property
    def _starts(self) -> list[bool]:
        """Return for each event whether it is the first event of an execution."""
        return [start for _, start in self._parts_of_executions]

    @functools.cached_property
    def _parts_of_executions(self) -> list[tuple[bool, bool]]:
        parts = []
        instruction: tuple[int, int, int] | None = None
        done: dict[EventKind, dict[int, int]] = {}
        for event in self.events:
            own, goal = (event.cta, event.warp, event.pc), self._goal(event)
            again = event.kind in done and (
                done[event.kind].get(goal, 0) & event.lanes or event.kind not in _BY_LANES
            )  # fmt: skip
            if own != instruction or again:
                instruction, done = own, {}
            parts.append((event.kind not in done, not done))
            of_kind = done.setdefault(event.kind, {})
            of_kind[goal] = of_kind.get(goal, 0) | event.lanes
        return parts

    def _goal(self, event: Event) -> int:
        """Return the rank of the CTA to which a part of a multicast goes, or 0 for other operations."""
        if NAMES[int(self.places.program.code[event.pc, 0])] not in MULTICASTS:
            return 0
        return (event.place & OFFSET_MASK) >> self.places.outcome.window

    def executions(self, cta: int, warp: int, pc: int) -> list[int]:
        """Return the positions in the trace at which a warp executes an access."""
        found = (self._executions.get((kind, cta, warp, pc)) for kind in _EXECUTIONS)
        return next((positions for positions in found if positions), [])

    def pair(self, first: Access, second: Access) -> tuple[int | None, int | None]:
        """Return the positions in the trace of two conflicting accesses, both in their intervals and at the bytes.  The
        second is the first execution of its instruction after an execution of the first one's, and the first is the
        last such execution before it.

        Shadow memory holds the last access to a byte with its interval and instruction, and a finding is entered when
        the two first meet.  So these are the executions that the finding is about.
        """
        one, two = self._matching_executions(first), self._matching_executions(second)
        for n in two:
            before = bisect_left(one, n)
            if before:
                return one[before - 1], n
        return (one[0] if one else None), (two[0] if two else None)  # the trace ends before that

    def next_to(self, address: int, pc: int, after: int, warps: Iterable[int] | None = None) -> int | None:
        """Return the first position after another at which an access of some warps, or of any, touches a byte."""
        for n in self._steps_by_instruction.get(pc, [])[bisect_right(self._steps_by_instruction.get(pc, []), after) :]:
            event = self.events[n]
            if (warps is None or event.warp in warps) and self.reaches(event, address):
                return n
        return None

    @functools.cached_property
    def _steps_by_instruction(self) -> dict[int, list[int]]:
        found: defaultdict[int, list[int]] = defaultdict(list)
        for n, event in enumerate(self.events):
            if event.kind in ("access", "copy"):
                found[event.pc].append(n)
        return dict(found)

    def _matching_executions(self, access: Access) -> list[int]:
        """Return the executions of an access, in its interval, that touch its address with one of its lanes.  For an
        asynchronous copy, return the positions at which it is issued."""
        found = self.executions(access.cta, access.warp, access.pc)
        if not access.interval:
            return [n for n in found if self._copies(n, access.address)] or found
        found = found[bisect_left(found, access.interval, key=self._interval) :]
        found = found[: bisect_right(found, access.interval, key=self._interval)]
        return [
            n
            for n in found
            if (
                self._copies(n, access.address)
                if self.events[n].kind == "copy"
                else self.reaches(self.events[n], access.address, access.lanes)
            )
        ]

    def _copies(self, position: int, address: int) -> bool:
        """Return whether a copy issued at this position writes to an address, or reads from it."""
        own = self.events[position]
        for n in range(position, len(self.events)):
            event = self.events[n]
            if (event.cta, event.warp, event.pc) != (own.cta, own.warp, own.pc) or (n > position and self._begins[n]):
                return False
            sides = (event.place, event.generation) if event.kind == "copy" else ()
            if any(at >= 0 and 0 <= address - at < event.amount for at in sides):
                return True
        return False

    def _interval(self, position: int) -> int:
        return self.events[position].interval

    def reaches(self, event: Event, address: int, lanes: int = ALL_LANES) -> bool:
        """Return whether one of some lanes touches the byte at an address.  If addresses were not recorded, return
        whether a lane may touch it, given the address of the lowest lane."""
        if event.kind == "copy":
            return 0 <= address - event.place < event.amount
        size = self.places.size(event.pc)
        if event.addresses < 0:
            return 0 <= address - event.place < LANES * size
        where = self.trace.lane_addresses(event)
        return any(lanes >> lane & 1 and 0 <= address - (at & ~ADDRESS_WRAPPED) < size for lane, at in where.items())

    def iteration(self, position: int | None) -> str:
        """Return `i=2` or `its 3rd execution`, or an empty text if the warp executes the instruction once."""
        if position is None:
            return ""
        event = self.events[position]
        places = self.executions(event.cta, event.warp, event.pc)
        execution = bisect_left(places, position)  # an atomic that was asked for is in the trace twice
        loops = self.places.loops(event.pc)
        text = iteration(loops, execution) if loops else ""
        if text or (len(places) == 1 and self.complete):
            return text
        return f"its {ordinal(execution)} execution"

    def role(self, cta: int, warp: int) -> str:
        """Return the role of a warp, from its calls of transfer patterns."""
        return self.places.role(self._barrier_calls.get((cta, warp), ()))

    @functools.cached_property
    def _barrier_calls(self) -> dict[tuple[int, int], set[int]]:
        """Return the barrier instructions of each warp, by (CTA, warp)."""
        found: defaultdict[tuple[int, int], set[int]] = defaultdict(set)
        for n in self.barriers:
            event = self.events[n]
            found[event.cta, event.warp].add(event.pc)
        return dict(found)

    @functools.cached_property
    def barriers(self) -> list[int]:
        """Return the positions of the barrier operations."""
        return [n for n, event in enumerate(self.events) if event.kind in ("arrive", "sync")]

    @functools.cached_property
    def has_partial_barriers(self) -> bool:
        """Return whether part of a warp executes a barrier operation."""
        return any(self.events[n].lanes != ALL_LANES for n in self.barriers)

    @functools.cached_property
    def _orders(self) -> list[int]:
        """Return the positions of the operations that order warps.  An exit is one of them if a barrier counts the
        whole CTA (B7)."""
        return [n for n, event in enumerate(self.events) if event.kind in _ORDERS and self._starts[n]]

    # -- what the warps knew ------------------------------------------------------------------------------------------

    def clocks(self, cta: int) -> Clocks:
        """Return the clocks of a CTA's warps."""
        if cta not in self._clocks:
            silent = relaxed_operations(self.places.program) if self.asynchronous else frozenset()
            clusters = self.places.cluster_index
            order = PhaseOrder(False, self.uncounted, silent, clusters) if self.asynchronous else None
            self._clocks[cta] = Clocks(self.events, cta, order or HappensBefore(False, self.uncounted))
        return self._clocks[cta]

    def clock_at(self, cta: int, warp: int, interval: int) -> Knowledge:
        """Return the clock of a warp in an interval: what it has observed of the other warps of its CTA."""
        return self.clocks(cta).of(warp, interval) | {warp: interval}

    def without(self, cta: int, warp: int, interval: int, end: int) -> list[int]:
        """Return the positions, before `end`, of the barrier operations and exits that need not wait for the operation
        that ends an interval of a warp."""
        clocks = self.clocks(cta)
        return [
            n
            for n in self._orders[: bisect_left(self._orders, end)]
            if self.events[n].cta == cta and clocks.knows(self.events[n], warp) < interval
        ]

    def after(self, cta: int, warp: int, interval: int) -> Event | None:
        """Return the operation that ends an interval of a warp."""
        position = self.endings.get((cta, warp, interval))
        return None if position is None else self.events[position]

    def next_barrier(self, cta: int, warp: int, interval: int) -> Event | None:
        """Return a warp's first releasing operation that ends this interval or a later one."""
        while (event := self.after(cta, warp, interval)) is not None:
            if event.kind in ("arrive", "sync", "arrive_on"):
                return event
            interval += 1
        return None

    def last_barrier(self, cta: int, warp: int, interval: int) -> Event | None:
        """Return the last barrier operation of a warp before an interval."""
        while interval > 1:
            interval -= 1
            event = self.after(cta, warp, interval)
            if event is not None and event.kind in ("arrive", "sync", "arrive_on", "await"):
                return event
        return None

    def matching_sync(self, event: Event, warp: int) -> Event | None:
        """Return the sync of a warp in the generation of an operation, or the warp's wait for its phase."""
        return self._syncs.get((event.cta, event.place, event.generation, warp))

    @functools.cached_property
    def _syncs(self) -> dict[tuple[int, int, int, int], Event]:
        """Return the first sync of each warp in a generation, or its first wait for a phase.  The key of a phase
        differs from that of a barrier."""
        events = (self.events[n] for n in reversed(self._orders))
        return {(e.cta, e.place, e.generation, e.warp): e for e in events if e.kind in ("sync", "await")}

    def flag(self, first: Access, after: int | None, second: Access, before: int | None) -> tuple[int, int] | None:
        """Return the positions of two atomics on one address: one by the warp of the first access after that access,
        one by the warp of the second before the second access."""
        raised: dict[int, int] = {}
        for n in self._atomics:
            event = self.events[n]
            whose = event.cta, event.warp
            if whose == (second.cta, second.warp) and event.place in raised:
                itself = event.pc == second.pc and before == n + 1
                if event.interval <= second.interval and (before is None or n < before) and not itself:
                    return raised[event.place], n
            elif whose == (first.cta, first.warp) and event.interval >= first.interval and (not after or n > after):
                raised.setdefault(event.place, n)
        return None

    @functools.cached_property
    def _atomics(self) -> list[int]:
        return [n for n, event in enumerate(self.events) if event.kind == "atomic"]

    # -- a schedule ---------------------------------------------------------------------------------------------------

    def before(self, *operations: tuple[int, int, int]) -> list[int]:
        """Return the positions of the barrier operations and exits that happen before one of some operations, each
        given as (CTA, warp, interval)."""
        knowledge = [
            (cta, {**self.clock_at(cta, warp, interval), warp: interval - 1}) for cta, warp, interval in operations
        ]
        last: Counter[tuple[int, int]] = Counter()
        for cta, known in knowledge:
            for warp, interval in known.items():
                last[cta, warp] = max(last[cta, warp], interval)
        events = ((n, self.events[n]) for n in self._orders)
        return [n for n, event in events if event.interval <= last[event.cta, event.warp]]

    def count_in_order(
        self, positions: Iterable[int], going: Iterable[tuple[int, int]] = ()
    ) -> dict[int, Counted] | None:
        """Return the barrier operations in this order, whatever their generations were in the run.  Return None if the
        order is impossible, because a waiting warp continues or counts differ.  The warps `going`, each (CTA, warp),
        must not wait then."""
        barriers: defaultdict[tuple[int, int], _Open] = defaultdict(_Open)
        waits: dict[tuple[int, int], tuple[int, int]] = {}
        found = {}
        for n in positions:
            event = self.events[n]
            if not self._is_barrier(n):
                continue
            key, warp = (event.cta, event.place), (event.cta, event.warp)
            barrier, count = barriers[key], self.expected_threads(event.cta, event.place, event.generation)
            if warp in waits or (barrier.arrived and count and barrier.expected not in (0, count)):
                return None
            barrier.arrived += LANES
            barrier.expected = barrier.expected or count
            found[n] = Counted(barrier.generation, barrier.arrived, barrier.expected)
            if event.kind == "sync":
                waits[warp] = key
            if barrier.arrived == barrier.expected:
                barriers[key] = _Open(barrier.generation + 1)
                waits = {warp: place for warp, place in waits.items() if place != key}
        return None if any(warp in waits for warp in going) else found

    def expected_threads(self, cta: int, barrier: int, generation: int) -> int:
        """Return the number of threads of a generation that completes in the run, or 0 if unknown."""
        return self._expected_by_generation.get((cta, barrier, generation), 0)

    @functools.cached_property
    def _expected_by_generation(self) -> dict[tuple[int, int, int], int]:
        arrived: Counter[tuple[int, int, int]] = Counter()
        complete = set()
        for event in self.events:
            key = event.cta, event.place, event.generation
            if event.kind in ("arrive", "sync"):
                arrived[key] += LANES
            elif event.kind == "complete":
                complete.add(key)
        return {key: arrived[key] for key in complete}

    def steps(self, positions: list[int], wanted: Callable[[Event], bool], accesses: dict[int, str]) -> list[Step]:
        """Return a schedule of these barrier operations and accesses, with other accesses in between if requested.  The
        last requested ones are shown."""
        counted = self.count_in_order(sorted(positions)) or {}
        told = {n for n in positions if self._is_told(n) and wanted(self.events[n])}
        telling = sorted(told | set(accesses))[-_MOST_STEPS:]
        steps = []
        for n in sorted({*positions, *accesses}):
            event, shown = self.events[n], n in telling
            if event.kind == "exit":
                steps.append(self.step(event, n, event.kind, shown=shown))
            elif event.kind in OF_PHASES:
                what = self.places.phase(event.place, event.generation, event.pc)
                steps.append(self.step(event, n, self._does(event), what=what, shown=shown))
            elif not self._is_barrier(n):
                when = self.iteration(n) if shown else ""
                what = accesses.get(n) or self.places.access_text(event.pc, event.place)
                steps.append(self.step(event, n, self._does(event), what=what, when=when, shown=shown))
            else:
                count = counted.get(n, Counted(event.generation, 0, 0))
                steps.append(self.step(event, n, event.kind, barrier=event.place, **count._asdict(), shown=shown))
        return steps

    def as_run(self, first: int, second: int, accesses: dict[int, str], wanted: Callable[[Event], bool]) -> list[Step]:
        """Return two operations, by their positions in the trace, in the order of the run, after all barrier operations
        before the second.  If racing accesses determine the path of a warp, the two also follow all these accesses.
        `accesses` states which of the two are accesses."""
        before = self.run_until(second)
        marks = {first: "(1)", second: "(2)"}
        steps = self.steps(before, wanted, accesses)
        return [
            step.model_copy(
                update={"mark": marks[n], "shown": True} | ({"when": self.iteration(n)} if step.what else {})
            )
            if n in marks
            else step
            for n, step in zip(sorted({*before, *accesses}), steps, strict=True)
        ]

    def run_until(self, last: int) -> list[int]:
        """Return the positions of all operations up to one, as a schedule of the run itself: barriers and exits, and
        accesses as well if racing ones decide the control flow of warps."""
        before = self._orders[: bisect_right(self._orders, last)]
        if self.places.depends_on_races():
            before = sorted([*before, *(n for n in range(last + 1) if self._is_access(n))])
        return before

    def first(self, access: Access) -> int:
        """Return the position of the first matching execution of an access; the end of the trace if there is none."""
        return next(iter(self._matching_executions(access)), len(self.events))

    def _is_barrier(self, position: int) -> bool:
        return self.events[position].kind in ("arrive", "sync")

    def _is_told(self, position: int) -> bool:
        """Return whether a schedule's text may have an operation: one that orders warps."""
        return self._is_barrier(position) or self.events[position].kind in ("arrive_on", "await")

    def _does(self, event: Event) -> str:
        return step_word(NAMES[int(self.places.program.code[event.pc, 0])])

    def _is_access(self, position: int) -> bool:
        """Return whether the event at a position is an access.  A requested atomic appears twice in a trace."""
        event = self.events[position]
        twice = ("access", event.cta, event.warp, event.pc) in self._executions
        return event.kind == "access" or (event.kind == "atomic" and not twice)

    def earlier(self, access: Access, position: int | None) -> list[int]:
        """Return the positions at which a warp executed an access before, one for each interval."""
        if position is None:
            return []
        executions = self.executions(access.cta, access.warp, access.pc)
        last = {self.events[n].interval: n for n in executions if n < position}
        return [n for interval, n in last.items() if interval != access.interval]

    def step(self, event: Event | Access, position: int | None, does: str, **fields: Any) -> Step:
        """Return a step of a schedule for the operation at `position` in the trace."""
        nth = 0 if position is None else self.nth[position]
        return self.places.step(event.pc, event.cta, event.warp, does, nth=nth, **fields)

    @functools.cached_property
    def nth(self) -> list[int]:
        """Return for each event the number of its execution among those of its instruction by its warp, from 1."""
        counts: Counter[tuple[str, int, int, int]] = Counter()
        found = []
        for event, begins in zip(self.events, self._begins, strict=True):
            key = event.kind, event.cta, event.warp, event.pc
            counts[key] += begins
            found.append(counts[key])
        return found
