"""A trace read for one finding: which execution it was, what its warps knew of each other, a schedule that shows it.

The clocks are those of the engines, of barriers alone: see `happens_before`.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from wsemu.bytecode import LANES
from wsemu.happens_before import HappensBefore, uncounted_barriers
from wsemu.outcome import Event
from wsemu.source_view import iteration, ordinal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wsemu.happens_before import Clock
    from wsemu.outcome import Trace
    from wsemu.places import Places

Knowledge = dict[int, int]
"""warp -> the last of its intervals known to happen before now"""
_ENDS_INTERVAL = ("arrive", "sync", "warp", "fence.cta", "fence.gpu", "fence.sys")
_NEVER = 1 << 62
"""an interval later than all"""
_MOST_STEPS = 6
"""of a schedule, before the two operations that it is about"""


class Access(NamedTuple):
    """One execution of an instruction by a warp."""

    cta: int
    warp: int
    interval: int
    pc: int
    address: int


class Step(NamedTuple):
    """A line of a schedule before it is aligned."""

    who: str
    verb: str
    what: str
    line: str
    rest: str


class Witness:
    """The part of a trace that two operations, in one CTA or two, are explained by."""

    def __init__(self, places: Places, trace: Trace, ctas: set[int]) -> None:
        self.places = places
        self.events = [event for event in trace.events if event.cta in ctas]
        self.complete = trace.complete
        self.uncounted = uncounted_barriers(places.program)
        self.endings = {(e.cta, e.warp, e.interval): n for n, e in enumerate(self.events) if e.kind in _ENDS_INTERVAL}

    # -- which execution ----------------------------------------------------------------------------------------------

    def executions(self, cta: int, warp: int, pc: int) -> list[int]:
        """Where in the trace a warp executes an access."""
        places = {kind: list[int]() for kind in ("access", "atomic")}
        for n, event in enumerate(self.events):
            if event.pc == pc and event.warp == warp and event.cta == cta and event.kind in places:
                places[event.kind].append(n)
        return places["access"] or places["atomic"]

    def position(self, access: Access, before: int | None = None) -> int | None:
        """Where in the trace an access is: the first that fits, or the last before another one."""
        found = [
            n
            for n in self.executions(access.cta, access.warp, access.pc)
            if self.events[n].interval == access.interval and (before is None or n < before)
        ]
        found = [n for n in found if self.reaches(self.events[n], access.address)] or found
        if not found:
            return None
        return found[0] if before is None else found[-1]

    def reaches(self, event: Event, address: int) -> bool:
        """Whether the lanes of an access may well touch an address, as its lowest one lies."""
        return 0 <= address - event.place < LANES * self.places.size(event.pc)

    def iteration(self, position: int | None) -> str:
        """`i=2`, `its 3rd execution`, or nothing for what the warp executes once."""
        if position is None:
            return ""
        event = self.events[position]
        places = self.executions(event.cta, event.warp, event.pc)
        execution = places.index(position)
        loops = self.places.loops(event.pc)
        text = iteration(loops, execution) if loops else ""
        if text or (len(places) == 1 and self.complete):
            return text
        return f"its {ordinal(execution)} execution"

    def role(self, cta: int, warp: int) -> str:
        """What a warp is for, from the calls of transfer patterns that it made."""
        return self.places.role(
            {e.pc for e in self.events if e.warp == warp and e.cta == cta and e.kind in ("arrive", "sync")}
        )

    # -- what the warps knew ------------------------------------------------------------------------------------------

    def clocks(self, cta: int) -> Iterator[tuple[int, Event, Clock]]:
        """Each event of a CTA with its position and what its warp knows of all warps just before it."""
        order = HappensBefore(atomics=False, uncounted=self.uncounted)
        warps: dict[int, None] = {}
        for n, event in enumerate(self.events):
            if event.cta == cta:
                warps[event.warp] = None
                if event.kind != "complete":
                    yield n, event, order.clock((cta, event.warp))
                order.apply(event)
        for warp in warps:  # what comes after the last event that was logged
            yield len(self.events), Event("exit", cta, warp, _NEVER, -1), order.clock((cta, warp))

    def known(self, cta: int, warp: int, interval: int) -> Knowledge:
        """What a warp knew of the others of its CTA in an interval."""
        for _, event, clock in self.clocks(cta):
            if event.warp == warp and event.interval >= interval:
                return {other: last for (_, other), last in clock.items()} | {warp: interval}
        return {warp: interval}

    def without(self, cta: int, warp: int, interval: int, end: int) -> list[int]:
        """Where the barrier operations before `end` are that need not wait for the one that ends a warp's interval."""
        return [
            n
            for n, event, clock in self.clocks(cta)
            if n < end and event.kind in ("arrive", "sync") and clock.get((cta, warp), 0) < interval
        ]

    def after(self, cta: int, warp: int, interval: int) -> Event | None:
        """The operation that ends an interval of a warp."""
        position = self.endings.get((cta, warp, interval))
        return None if position is None else self.events[position]

    def next_barrier(self, cta: int, warp: int, interval: int) -> Event | None:
        """The first barrier operation of a warp that ends this interval or a later one."""
        while (event := self.after(cta, warp, interval)) is not None:
            if event.kind in ("arrive", "sync"):
                return event
            interval += 1
        return None

    def last_barrier(self, cta: int, warp: int, interval: int) -> Event | None:
        """The last barrier operation of a warp before an interval."""
        while interval > 1:
            interval -= 1
            event = self.after(cta, warp, interval)
            if event is not None and event.kind in ("arrive", "sync"):
                return event
        return None

    def sync_of(self, event: Event, warp: int) -> Event | None:
        """The sync of a warp in the generation that an operation takes part in."""
        for other in self.events:
            if other.kind == "sync" and (other.cta, other.place, other.generation) == (
                event.cta, event.place, event.generation,
            ) and other.warp == warp:  # fmt: skip
                return other
        return None

    def flag(self, first: Access, after: int | None, second: Access, before: int | None) -> tuple[int, int] | None:
        """An atomic of the first access's warp after it, and one of the second's before that, to one address."""
        raised: dict[int, int] = {}
        for n, event in enumerate(self.events):
            if event.kind != "atomic":
                continue
            whose = event.cta, event.warp
            if whose == (second.cta, second.warp) and event.place in raised:
                if event.interval <= second.interval and (before is None or n < before):
                    return raised[event.place], event.pc
            elif whose == (first.cta, first.warp) and event.interval >= first.interval and (not after or n > after):
                raised.setdefault(event.place, event.pc)
        return None

    # -- a schedule ---------------------------------------------------------------------------------------------------

    def before(self, *operations: tuple[int, int, int]) -> list[int]:
        """Where the barrier operations are that happen before one of some operations, (CTA, warp, interval) each."""
        knowledge = [
            (cta, {**self.known(cta, warp, interval), warp: interval - 1}) for cta, warp, interval in operations
        ]
        return [
            n
            for n, event in enumerate(self.events)
            if event.kind in ("arrive", "sync")
            and any(event.cta == cta and event.interval <= known.get(event.warp, 0) for cta, known in knowledge)
        ]

    def arrived(self, positions: list[int]) -> dict[int, int]:
        """Position of each barrier operation of a schedule -> threads that its generation has with it."""
        counts: defaultdict[tuple[int, int, int], int] = defaultdict(int)
        found = {}
        for n in positions:
            event = self.events[n]
            key = event.cta, event.place, event.generation
            counts[key] += LANES
            found[n] = counts[key]
        return found

    def expected(self, cta: int, barrier: int, generation: int) -> int:
        """Threads of a generation that completes; 0 where that is not known."""
        key = (cta, barrier, generation)
        fitting = [e for e in self.events if (e.cta, e.place, e.generation) == key]
        complete = any(e.kind == "complete" for e in fitting)
        return LANES * sum(e.kind in ("arrive", "sync") for e in fitting) if complete else 0

    def steps(self, positions: list[int], wanted: Callable[[Event], bool], accesses: dict[int, str]) -> list[Step]:
        """The last steps of a schedule, of some of its barrier operations and of some accesses."""
        arrived = self.arrived(positions)
        kept = [n for n in positions if wanted(self.events[n])]
        steps = []
        for n in sorted([*kept, *accesses])[-_MOST_STEPS:]:
            event = self.events[n]
            if n in accesses:
                steps.append(self.step(event, self.places.verb(event.pc), accesses[n], self.iteration(n)))
                continue
            expected = self.expected(event.cta, event.place, event.generation)
            count = f"{arrived[n]}/{expected}" if expected else f"{arrived[n]} arrived"
            rest = f"{count} complete" if arrived[n] == expected else count
            steps.append(self.step(event, event.kind, f"barrier {event.place} gen {event.generation}", rest))
        return steps

    def earlier(self, access: Access, position: int | None) -> list[int]:
        """Where a warp executed an access before, once for each interval."""
        if position is None:
            return []
        executions = self.executions(access.cta, access.warp, access.pc)
        last = {self.events[n].interval: n for n in executions if n < position}
        return [n for interval, n in last.items() if interval != access.interval]

    def step(self, event: Event | Access, verb: str, what: str, rest: str) -> Step:
        """A line of a schedule."""
        return Step(f"warp {event.warp}", verb, what, f":{self.places.line(event.pc)}", rest)


def numbered(steps: list[Step]) -> Iterator[str]:
    """The lines of a schedule, numbered and aligned."""
    widths = [max((len(step[column]) for step in steps), default=0) for column in range(len(Step._fields))]
    for number, step in enumerate(steps, 1):
        cells = [text.ljust(width) for text, width in zip(step, widths, strict=True)]
        yield f"{number:>{len(str(len(steps)))}} {cells[0]}  {cells[1]} " + "  ".join(cells[2:]).rstrip()
