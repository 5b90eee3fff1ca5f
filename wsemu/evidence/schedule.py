"""A trace read for one finding: which execution it was, what its warps knew of each other, a schedule that shows it.

The clocks are those of the engines, of barriers alone: see `happens_before`.
"""

from __future__ import annotations

import functools
from bisect import bisect_left
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from wsemu.evidence.source_view import iteration, ordinal
from wsemu.model.isa import LANES, NAMES
from wsemu.model.outcome import Event
from wsemu.proof.happens_before import HappensBefore, uncounted_barriers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from wsemu.evidence.places import Places
    from wsemu.model.finding import Step
    from wsemu.model.outcome import RawFinding, Trace
    from wsemu.proof.happens_before import Clock

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


class Counted(NamedTuple):
    """Where a barrier operation is counted."""

    generation: int
    arrived: int
    """threads of the generation with it"""
    expected: int
    """threads that complete it; 0 where that is not known"""


@dataclass(slots=True)
class _Open:
    """The open generation of a barrier."""

    generation: int = 0
    arrived: int = 0
    expected: int = 0


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
        execution = bisect_left(places, position)  # an atomic that was asked for is in the trace twice
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
        """Where the trace has an atomic of the first access's warp after it, and one of the second's before that, to
        one address."""
        raised: dict[int, int] = {}
        for n, event in enumerate(self.events):
            if event.kind != "atomic":
                continue
            whose = event.cta, event.warp
            if whose == (second.cta, second.warp) and event.place in raised:
                itself = event.pc == second.pc and before == n + 1
                if event.interval <= second.interval and (before is None or n < before) and not itself:
                    return raised[event.place], n
            elif whose == (first.cta, first.warp) and event.interval >= first.interval and (not after or n > after):
                raised.setdefault(event.place, n)
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

    def counted(self, positions: Iterable[int], going: Iterable[tuple[int, int]] = ()) -> dict[int, Counted] | None:
        """Barrier operations executed in this order, whatever their generations were in the run; None where that
        cannot be: a warp goes on that waits, or counts differ.  The warps `going`, (CTA, warp), must not wait then."""
        barriers: defaultdict[tuple[int, int], _Open] = defaultdict(_Open)
        waits: dict[tuple[int, int], tuple[int, int]] = {}
        found = {}
        for n in positions:
            event = self.events[n]
            key, warp = (event.cta, event.place), (event.cta, event.warp)
            barrier, count = barriers[key], self.expected(event.cta, event.place, event.generation)
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

    def expected(self, cta: int, barrier: int, generation: int) -> int:
        """Threads of a generation that completes in the run; 0 where that is not known."""
        return self._expected.get((cta, barrier, generation), 0)

    @functools.cached_property
    def _expected(self) -> dict[tuple[int, int, int], int]:
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
        """A schedule of these barrier operations and accesses; the last ones that are wanted are shown."""
        counted = self.counted(sorted(positions)) or {}
        telling = sorted({n for n in positions if wanted(self.events[n])} | set(accesses))[-_MOST_STEPS:]
        steps = []
        for n in sorted([*positions, *accesses]):
            event, shown = self.events[n], n in telling
            if n in accesses:
                when = self.iteration(n) if shown else ""
                steps.append(self.step(event, n, self.places.verb(event.pc), what=accesses[n], when=when, shown=shown))
            else:
                count = counted.get(n, Counted(event.generation, 0, 0))
                steps.append(self.step(event, n, event.kind, barrier=event.place, **count._asdict(), shown=shown))
        return steps

    def as_run(self, first: int, second: int, accesses: dict[int, str], wanted: Callable[[Event], bool]) -> list[Step]:
        """Two operations, by their places in the trace, in the order of the run, after all barrier operations before
        the second; `accesses` names those of the two that are accesses."""
        barriers = [n for n in range(second + 1) if self.events[n].kind in ("arrive", "sync")]
        marks = {first: "(1)", second: "(2)"}
        steps = self.steps(barriers, wanted, accesses)
        return [
            step.model_copy(
                update={"mark": marks[n], "shown": True} | ({"when": self.iteration(n)} if step.what else {})
            )
            if n in marks
            else step
            for n, step in zip(sorted([*barriers, *accesses]), steps, strict=True)
        ]

    def earlier(self, access: Access, position: int | None) -> list[int]:
        """Where a warp executed an access before, once for each interval."""
        if position is None:
            return []
        executions = self.executions(access.cta, access.warp, access.pc)
        last = {self.events[n].interval: n for n in executions if n < position}
        return [n for interval, n in last.items() if interval != access.interval]

    def step(self, event: Event | Access, position: int | None, does: str, **fields: Any) -> Step:
        """A step of a schedule; `position` is where its operation is in the trace."""
        nth = 0 if position is None else self.nth[position]
        return self.places.step(event.pc, event.cta, event.warp, does, nth=nth, **fields)

    @functools.cached_property
    def nth(self) -> list[int]:
        """Of each event, which execution of its instruction by its warp it is, from 1."""
        counts: Counter[tuple[str, int, int, int]] = Counter()
        found = []
        for event in self.events:
            key = event.kind, event.cta, event.warp, event.pc
            counts[key] += 1
            found.append(counts[key])
        return found


def culprit(raw: RawFinding, places: Places) -> Step:
    """The operation that is wrong in itself, as the only step: it is reached when the CTA runs in order."""
    does = places.verb(raw.pc)
    place: dict[str, Any] = {}
    if does == "barrier":
        does = "arrive" if NAMES[int(places.program.code[raw.pc, 0])] == "bar.arrive" else "sync"
        place = {name: raw.detail.get(name) for name in ("barrier", "generation")}
    elif "address" in raw.detail:
        place = {"what": places.accessed(raw.pc, raw.detail["address"])}
    elif "index" in raw.detail and places.counts_bytes(raw.pc):
        place = {"what": f"byte {raw.detail['index']} of {places.program.array_of[raw.pc]}"}
    return places.step(raw.pc, raw.cta, raw.warp, does, mark="(1)", **place)


def numbered(steps: list[Step]) -> list[str]:
    """The lines of a schedule, numbered and aligned: those of its steps that are shown."""
    shown = [step for step in steps if step.shown]
    ctas = len({step.cta for step in shown}) > 1
    rows = [_cells(step, ctas) for step in shown]
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = []
    for number, row in enumerate(rows, 1):
        cells = [text.ljust(width) for text, width in zip(row, widths, strict=True)]
        lines.append(f"{number:>{len(str(len(rows)))}} {cells[0]}  {cells[1]} " + "  ".join(cells[2:]).rstrip())
    return lines


def _cells(step: Step, ctas: bool) -> list[str]:
    """Who, what it does, to what, where, and the rest."""
    who = f"CTA {step.cta} warp {step.warp}" if ctas else f"warp {step.warp}"
    what = step.what if step.barrier is None else f"barrier {step.barrier}"
    what += "" if step.generation is None else f" gen {step.generation}"
    rest = [step.when, step.mark]
    if step.arrived is not None:
        count = f"{step.arrived}/{step.expected}" if step.expected else f"{step.arrived} arrived"
        rest.insert(0, f"{count} complete" if step.arrived == step.expected else count)
    return [who, step.does, what, f":{step.line}", "  ".join(text for text in rest if text)]
