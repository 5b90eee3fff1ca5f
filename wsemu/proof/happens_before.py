"""Happens-before: which operations of a run precede which others in every schedule with the same barrier generations.

The definitions follow Sharma, Bauer, Aiken, "Verification of Producer-Consumer Synchronization in GPU Programs" (PLDI
2015), section 3, expressed with the vector clocks of Flanagan, Freund, "FastTrack" (PLDI 2009):

`interval`    A part of a warp's program between two of its operations that release or acquire, counted from 1 in each
              CTA.  Each arrive, released sync, fence and warp-wide operation ends one interval and begins the next.
`epoch`       (CTA, warp, interval): the time of a warp's action.
`actor`       (CTA, warp).
`clock`       For an actor: the last interval of every actor that happens before now.  Its own entry is its current
              interval.
`generation`  For a barrier: its operations from one completion to the next.
`give`        An actor gives by joining its clock, current interval included, into a generation or a location.
`take`        An actor takes by joining the clock that was given there into its own: for each actor, the later interval.

An epoch happens before an actor's current operation if and only if the actor's clock has reached its interval:
`before`.

Each rule is a method:

`arrive`      Gives to the current generation of its barrier, and takes nothing (B13).
`sync`        Gives to the generation as well, and waits.
`lanes`       If part of a warp executes an arrive or sync, only these lanes give and take (B14).  From then on each
              lane of the CTA has its own clock (`_Threads`), and its warp's clock is the union of them.
`complete`    Ends a generation: each of its syncs takes everything that its operations gave.  If they have no thread
              count, the whole CTA takes part: then warps that have exited give their clocks as well (B7).
`exit`        Gives to each generation without a count that completes later.
`warp`        A syncwarp, shuffle, vote or match orders the lanes that execute it, not warps.  It also orders lanes that
              have exited, if its mask names them.  Each lane joins the clocks of all of them.
`fence`       If atomics count, acquires: it takes what the locations gave to the warp's atomics since, and marks the
              clock that the next atomics release.
`atomic`      If atomics count, gives its location the clock of the warp's last fence, if there was one, and records
              what the location has been given so far.  Without fences on both sides, an atomic orders only this: the
              operations after it follow the atomics on its location that it observed.

Fences follow the release and acquire patterns of PTX ISA, "Memory Consistency Model": fence; atomic on L -> atomic on
L; fence. Both fences must have a scope that includes the other side: its CTA, its cluster, or with gpu and sys the
whole device. A warp counts as one thread here: a fence of one lane counts for all. PTX ISA, "barrier": sync and arrive
order memory among the participating threads.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from typing import TYPE_CHECKING

from wsemu.model.data import NamedTuple, dataclass, field
from wsemu.model.isa import ADDRESS_WRAPPED, ATOMIC, LANES, NAMES, OPERATIONS, SEGMENT_SHIFT, SHARED
from wsemu.model.outcome import ALL_LANES, CTA_FENCE, FENCES

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Sequence

    from wsemu.model.outcome import Event, EventKind, RawFinding, Trace
    from wsemu.model.program import Program

Actor = tuple[int, int]
"""(CTA, warp)"""
Epoch = tuple[int, int, int]
"""(CTA, warp, interval)"""
Clock = dict[Actor, int]
"""actor -> the last of its intervals that happens before a point in time; 0 if the actor is missing"""
Known = dict[int, list[int]]
"""warp -> for each of its lanes, the last interval that was observed"""
_TAKES: tuple[EventKind, ...] = ("sync", *FENCES)
_ENDS: tuple[EventKind, ...] = ("arrive", "warp", "exit", *_TAKES)
"""events that end an interval; an exit ends the warp's last one"""


def uncounted_barriers(program: Program) -> frozenset[int]:
    """Return a program's barrier instructions without a thread count, in which the whole CTA takes part."""
    operations = ((pc, OPERATIONS[NAMES[fields[0]]], fields[4]) for pc, fields in enumerate(program.code.tolist()))
    return frozenset(pc for pc, operation, count in operations if operation.kind == "barrier" and not count)


def join(clock: Clock, other: Clock) -> None:
    """Join `other` into `clock`: for each actor, keep the later interval."""
    if len(clock) < len(other):  # compare the entries of the smaller one
        own = dict(clock)
        clock.update(other)
        other = own
    for actor, interval in other.items():
        if interval > clock.get(actor, 0):
            clock[actor] = interval


@dataclass(slots=True)
class _Generation:
    """The current generation of a barrier."""

    given: Clock = field(default_factory=dict)
    syncs: list[tuple[Actor, int]] = field(default_factory=list)
    """waiting warps, each with the mask of its waiting lanes"""
    uncounted: bool = False


@dataclass(slots=True)
class _Lanes:
    """The observations of a warp's lanes of each other.

    They include all operations up to interval `met`; `known[lane][other]` may be a later interval.
    """

    met: int = 0
    known: dict[int, dict[int, int]] = field(default_factory=dict)
    all: int = ALL_LANES


def join_lanes(known: Known, other: Known) -> None:
    """Join `other` into `known`: for each lane, keep the later interval."""
    for warp, intervals in other.items():
        known[warp] = [*map(max, known[warp], intervals)] if warp in known else list(intervals)


def _spread(clock: Clock) -> Known:
    """Return a clock of warps as one of lanes: all lanes of a warp have its interval."""
    return {warp: [interval] * LANES for (_, warp), interval in clock.items()}


@dataclass(slots=True)
class _Threads:
    """The clocks of a CTA's lanes, which exist once part of a warp has executed a barrier."""

    known: defaultdict[tuple[int, int], Known] = field(default_factory=lambda: defaultdict(dict))
    """(warp, lane) -> its clock"""
    given: defaultdict[int, Known] = field(default_factory=lambda: defaultdict(dict))
    """barrier -> the clock that its current generation was given"""
    exited: Known = field(default_factory=dict)

    def give(self, to: Known, warp: int, lanes: int, now: int) -> None:
        """Join the clocks of some lanes of a warp, which include their current interval, into `to`."""
        for lane in range(LANES):
            if lanes >> lane & 1:
                own = self.known[warp, lane]
                own.setdefault(warp, [0] * LANES)[lane] = now
                join_lanes(to, own)

    def take(self, warp: int, lanes: int, known: Known) -> None:
        for lane in range(LANES):
            if lanes >> lane & 1:
                join_lanes(self.known[warp, lane], known)


OF_CTA, OF_CLUSTER, OF_ALL = range(3)
"""scope of a fence: its CTA, its cluster, all threads"""
Given = dict[tuple[int, int], Clock]
"""(scope, which CTA or cluster) -> the clock that was released to it; tables share these clocks, so none is changed"""


def add_given(given: Given, other: Given) -> None:
    """Join released clocks into `given`, key by key."""
    for key, clock in other.items():
        old = given.get(key)
        if old is None:
            given[key] = clock
        elif old is not clock and old != clock:
            given[key] = joined = dict(old)
            join(joined, clock)


class HappensBefore:
    """The clocks of all warps of a launch, updated operation by operation.

    If `atomics` is false, only barriers order, as in the engines. `uncounted` are the barrier instructions without a
    thread count, in which the whole CTA takes part. With `lockstep`, the lanes of a warp execute together. With
    `whole`, barrier operations of part of a warp order nothing. `cluster_of` returns the cluster of a CTA; without
    clusters, each CTA is one. `cluster_wide` are the fences of cluster scope.
    """

    def __init__(
        self,
        atomics: bool,
        uncounted: Container[int] = (),
        *,
        lockstep: bool = False,
        whole: bool = False,
        cluster_of: Callable[[int], int] = int,
        cluster_wide: Container[int] = (),
    ) -> None:
        self.atomics = atomics
        self._cluster_of, self._cluster_wide = cluster_of, cluster_wide
        self.lockstep, self.whole = lockstep, whole
        self._threads: dict[int, _Threads] = {}
        self.uncounted = uncounted
        self.only: frozenset[Actor] | None = None
        """the only actors whose intervals others need to know; None: all"""
        self._clocks: dict[Actor, Clock] = {}
        self._open: defaultdict[tuple[int, int], _Generation] = defaultdict(_Generation)
        self._exited: defaultdict[int, Clock] = defaultdict(dict)
        self._gone: set[Actor] = set()
        self._lanes: defaultdict[Actor, _Lanes] = defaultdict(_Lanes)
        self._fenced: defaultdict[Actor, Given] = defaultdict(dict)
        self._locations: defaultdict[tuple[int, int], Given] = defaultdict(dict)
        self._seen: defaultdict[Actor, Given] = defaultdict(dict)
        self._rules: dict[EventKind, Callable[[Event], None]] = {
            "arrive": self.arrive,
            "sync": self.sync,
            "complete": self.complete,
            "exit": self.exit,
            "warp": self.warp,
            "atomic": self.atomic,
            **dict.fromkeys(FENCES, self.fence),
        }

    def apply(self, event: Event) -> None:
        """Update the clocks by one operation; an access changes nothing."""
        rule = self._rules.get(event.kind)
        if rule is not None:
            rule(event)

    # -- questions ----------------------------------------------------------------------------------------------------

    def clock(self, actor: Actor) -> Clock:
        """Return the clock of an actor, which must not be changed."""
        return self._clocks.setdefault(actor, {actor: 1})

    def interval(self, actor: Actor) -> int:
        """Return the current interval of an actor."""
        return self.clock(actor)[actor]

    def released_clock(self, actor: Actor) -> Clock:
        """Return what others may learn from an actor."""
        clock = self.clock(actor)
        return clock if self.only is None else {one: clock[one] for one in self.only if one in clock}

    def before(self, epoch: Epoch, actor: Actor) -> bool:
        """Return whether everything done so far in an epoch happens before the actor's current operation."""
        cta, warp, interval = epoch
        return interval <= self.clock(actor).get((cta, warp), 0)

    def has_lane_clocks(self, cta: int, lanes: int = ALL_LANES) -> bool:
        """Return whether the lanes of a CTA have their own clocks, or get them because only `lanes` execute a barrier
        now."""
        return cta in self._threads or (lanes != ALL_LANES and not self.lockstep)

    def lane_happens_before(self, actor: Actor, interval: int, lane: int, later: Actor, later_lane: int) -> bool:
        """Return whether a lane's operations in an interval happen before the current operation of a lane of the same
        CTA."""
        if actor == later and (lane == later_lane or interval <= self._lanes[actor].met):
            return True
        threads = self._threads.get(actor[0])
        if threads is not None:
            known = threads.known[later[1], later_lane].get(actor[1])
            return known is not None and interval <= known[lane]
        if actor != later:
            return self.before((*actor, interval), later)
        return self.lanes_happen_before(actor, interval, lane, lane, later_lane)

    def lanes_happen_before(self, actor: Actor, interval: int, first_lane: int, last_lane: int, lane: int) -> bool:
        """Return whether operations of lanes `first_lane` to `last_lane` of a warp, in one of its intervals, happen
        before the current operation of its lane `lane`."""
        lanes = self._lanes[actor]
        known = lanes.known.get(lane, {})
        others = (other for other in range(first_lane, last_lane + 1) if other != lane)
        return interval <= lanes.met or all(interval <= known.get(other, 0) for other in others)

    # -- barriers -----------------------------------------------------------------------------------------------------

    def arrive(self, event: Event) -> None:
        self._give(event)
        self._begin_interval((event.cta, event.warp))

    def sync(self, event: Event) -> None:
        actor = event.cta, event.warp
        self._give(event).syncs.append((actor, event.lanes))
        if event.lanes != ALL_LANES:
            self._begin_interval(actor)

    def _give(self, event: Event) -> _Generation:
        generation = self._open[event.cta, event.place]
        actor = event.cta, event.warp
        if self.has_lane_clocks(event.cta, event.lanes):
            threads = self._threads.get(event.cta) or self._part(event.cta)
            threads.give(threads.given[event.place], event.warp, event.lanes, self.interval(actor))
        if not (self.whole and event.lanes != ALL_LANES):
            join(generation.given, self.released_clock(actor))
        generation.uncounted |= event.pc in self.uncounted
        return generation

    def _part(self, cta: int) -> _Threads:
        """Give each lane of a CTA its own clock, copied from the clock of its warp, which sufficed until now."""
        threads = self._threads[cta] = _Threads()
        for actor, clock in self._clocks.items():
            if actor[0] == cta:
                lanes = self._lanes[actor]
                for lane in range(LANES):
                    known = threads.known[actor[1], lane] = _spread(clock)
                    own = lanes.known.get(lane, {})
                    known[actor[1]] = [max(lanes.met, own.get(other, 0)) for other in range(LANES)]
        for (of, barrier), generation in self._open.items():
            if of == cta:
                threads.given[barrier] = _spread(generation.given)
        threads.exited = _spread(self._exited[cta])
        return threads

    def complete(self, event: Event) -> None:
        generation = self._open.pop((event.cta, event.place), _Generation())
        threads = self._threads.get(event.cta)
        known = threads.given.pop(event.place, {}) if threads else {}
        if generation.uncounted or (event.cta, event.warp) in self._gone:  # in the second case, an exit completed it
            join(generation.given, self._exited[event.cta])
            join_lanes(known, threads.exited if threads else {})
        for actor, lanes in generation.syncs:
            if not (self.whole and lanes != ALL_LANES):
                join(self.clock(actor), generation.given)
            if threads:
                threads.take(actor[1], lanes, known)
            self._meet(actor, lanes)
            self._begin_interval(actor)

    def exit(self, event: Event) -> None:
        self._gone.add((event.cta, event.warp))
        join(self._exited[event.cta], self.released_clock((event.cta, event.warp)))
        if threads := self._threads.get(event.cta):
            threads.give(threads.exited, event.warp, ALL_LANES, self.interval((event.cta, event.warp)))

    # -- lanes --------------------------------------------------------------------------------------------------------

    def warp(self, event: Event) -> None:
        actor = event.cta, event.warp
        self._meet(actor, event.place & ALL_LANES)
        self._begin_interval(actor)

    def set_lanes(self, actor: Actor, lanes: int) -> None:
        """Set the initial lanes of a warp: the last warp of a CTA may have fewer than 32."""
        self._lanes[actor].all = lanes

    def _meet(self, actor: Actor, members: int) -> None:
        """Synchronize some lanes of a warp."""
        lanes, now = self._lanes[actor], self.interval(actor)
        if threads := self._threads.get(actor[0]):
            known_: Known = {}
            threads.give(known_, actor[1], members, now)
            threads.take(actor[1], members, known_)
        if members & lanes.all == lanes.all:
            lanes.met = now
            lanes.known.clear()
            return
        there = [lane for lane in range(LANES) if members >> lane & 1]
        known: dict[int, int] = {}
        for lane in there:
            for other, interval in lanes.known.get(lane, {}).items():
                known[other] = max(interval, known.get(other, 0))
        known.update(dict.fromkeys(there, now))
        lanes.known.update(dict.fromkeys(there, known))

    # -- atomics ------------------------------------------------------------------------------------------------------

    def fence(self, event: Event) -> None:
        actor = event.cta, event.warp
        reach = OF_ALL if event.kind != CTA_FENCE else OF_CLUSTER if event.pc in self._cluster_wide else OF_CTA
        clock = self.clock(actor)
        if self.atomics:
            seen, own = self._seen[actor], self._scopes(event.cta)[: reach + 1]
            for scope in own:
                join(clock, seen.get(scope, {}))
            if reach == OF_ALL:  # no later fence of the warp acquires more of what it has observed
                seen.clear()
            released = dict(self.released_clock(actor))
            self._fenced[actor].update(dict.fromkeys(own, released))
        self._begin_interval(actor)

    def _scopes(self, cta: int) -> tuple[tuple[int, int], ...]:
        """Return the scopes that contain a CTA, the narrowest first.  A fence releases to, and acquires from, each of
        them up to its own."""
        return (OF_CTA, cta), (OF_CLUSTER, self._cluster_of(cta)), (OF_ALL, 0)

    def atomic(self, event: Event) -> None:
        if not self.atomics:
            return
        actor, address = (event.cta, event.warp), event.place & ~ADDRESS_WRAPPED
        # each cluster has a shared memory of its own
        own = self._cluster_of(event.cta) if address >> SEGMENT_SHIFT == SHARED else -1
        location = self._locations[own, address]
        add_given(self._seen[actor], {scope: location[scope] for scope in self._scopes(event.cta) if scope in location})
        add_given(location, self._fenced[actor])

    def _begin_interval(self, actor: Actor) -> None:
        self.clock(actor)[actor] += 1


# -- a whole trace ----------------------------------------------------------------------------------------------------


def are_ordered(
    trace: Trace,
    pairs: Sequence[tuple[Epoch, Epoch]],
    *,
    atomics: bool = True,
    uncounted: Container[int] = (),
    whole: bool = False,
    order: HappensBefore | None = None,
) -> list[bool]:
    """Return, for each pair of epochs of different warps, whether the first one happens before the second one.

    `whole` is the parameter of `HappensBefore`; `order` replaces such an object. One pass serves all pairs: a clock
    changes only when an interval begins, so any time in the later interval can be used. Epochs beyond the end of an
    incomplete trace count as unordered.
    """
    order = order or HappensBefore(atomics, uncounted, whole=whole)
    order.only = frozenset(earlier[:2] for earlier, _ in pairs)
    answers = [False] * len(pairs)
    asked: defaultdict[Epoch, list[int]] = defaultdict(list)
    for n, (_, later) in enumerate(pairs):
        asked[later].append(n)

    def answer(epoch: Epoch) -> None:
        cta, warp, _ = epoch
        for n in asked.pop(epoch, ()):
            answers[n] = order.before(pairs[n][0], (cta, warp))

    for event in trace.events:
        if event.kind != "complete":
            answer((event.cta, event.warp, event.interval))
        if not asked:
            break
        order.apply(event)
    for epoch in list(asked):
        if order.interval(epoch[:2]) == epoch[2]:
            answer(epoch)
    return answers


class Asynchronous(NamedTuple):
    """The additional synchronization of launches with asynchronous operations."""

    order: Callable[[], HappensBefore]
    """function that returns new clocks with the rules of the launch"""
    ends: Callable[[Trace, RawFinding], set[Epoch]]
    """function that returns the epochs in which warps observed the completion of a race's earlier access, a copy"""
    begins: Callable[[Trace, RawFinding], set[Epoch]]
    """function that returns the epochs in which copies were issued that may be the later access of a race"""


def ordered_by_atomics(
    trace: Trace,
    findings: Iterable[RawFinding],
    uncounted: Container[int] = (),
    *,
    observed: bool = True,
    more: Asynchronous | None = None,
    cluster_of: Callable[[int], int] = int,
    wide: Container[int] = (),
    compares: Container[int] = (),
    acquires: Container[int] = (),
) -> list[RawFinding]:
    """Return the races and recycled barriers that atomics and fences order, in the run of this trace.

    Barriers alone do not order them: otherwise they would not be findings. Findings of other codes are never returned.

    `observed`: an atomic's observation counts even without fences. This is for launches in which results of atomics
    decide whether accesses execute. In other launches all accesses execute anyway, but the atomics of other schedules
    observe other writes. For a race whose earlier access is atomic, the trace should have the later accesses: see
    `_observers`. `cluster_of` returns the cluster of a CTA, and `wide` are the fences of cluster scope. `compares` are
    `cas` operations, whose writes depend on the interleaving as well. `acquires` are strong reads that acquire by
    themselves, and so follow what they synchronize with.
    """
    cluster_of = functools.cache(cluster_of)
    asked = [
        raw for raw in findings if raw.code in ("race", "barrier-recycling") and (more or not _is_asynchronous(raw))
    ]
    pairs, of = [], []
    ends: dict[int, set[Epoch]] = {}
    """number of a finding -> its later accesses, each of which must be ordered"""
    settled: set[int] = set()
    for n, raw in enumerate(asked):
        earlier, later = epochs(raw)
        looked = observed or raw.other_pc in compares
        observers = _observers(trace, raw, cluster_of) if looked else set()
        if later[:2] in {epoch[:2] for epoch in observers}:
            settled.add(n)
        first = more.ends(trace, raw) if more and "other_async" in raw.detail else {earlier}
        last = more.begins(trace, raw) if more and "async" in raw.detail else {later}
        if raw.pc in acquires and raw.code == "race":
            last = {(*later[:2], later[2] + 1)}  # its fence ends the interval
        ends[n] = last
        candidates = [(epoch, end) for epoch in (*first, *observers) for end in last]
        pairs += candidates
        of += [n] * len(candidates)
    for whole in (False, True):  # races between lanes need other clocks: barriers of partial warps do not order them
        chosen = [k for k, n in enumerate(of) if ("other_lane" in asked[n].detail) == whole]
        plain = functools.partial(HappensBefore, True, uncounted, whole=whole, cluster_of=cluster_of, cluster_wide=wide)
        answers = are_ordered(trace, [pairs[k] for k in chosen], order=more.order() if more else plain())
        for k, answer in zip(chosen, answers, strict=True):
            ends[of[k]] -= {pairs[k][1]} if answer else set()
        settled |= {of[k] for k in chosen if not ends[of[k]]}
    return [raw for n, raw in enumerate(asked) if n in settled]


def _is_asynchronous(raw: RawFinding) -> bool:
    """Return whether one side is an asynchronous copy, which atomics of threads do not order."""
    return "async" in raw.detail or "other_async" in raw.detail


def _observers(trace: Trace, raw: RawFinding, cluster_of: Callable[[int], int]) -> set[Epoch]:
    """Return the epochs, of any warp, of the atomics that a race's address receives between its two accesses.

    The earlier access is an atomic; the later one is plain, or not atomic with it. PTX ISA, "Causality order": a write
    precedes everything after an atomic that observes it, on the same address and without any fence. So the last CTA may
    reset the counter by which it learned that it was the last one.
    """
    if raw.code != "race" or raw.detail.get("other_kind") != ATOMIC:
        return set()
    earlier, later = epochs(raw)
    address = raw.detail["address"]
    shared = address >> SEGMENT_SHIFT == SHARED  # each cluster has its own shared memory
    here = cluster_of(raw.cta)
    observers: set[Epoch] = set()
    seen = False
    for event in trace.events:
        epoch = event.cta, event.warp, event.interval
        if seen and event.kind in ("access", "atomic") and (event.pc, *epoch) == (raw.pc, *later):
            break
        if (
            event.kind != "atomic"
            or event.place & ~ADDRESS_WRAPPED != address
            or (shared and cluster_of(event.cta) != here)
        ):
            continue
        if (event.pc, *epoch) == (raw.other_pc, *earlier):
            seen, observers = True, set()
        elif seen and epoch[:2] != earlier[:2]:
            observers.add(epoch)
    return observers


def epochs(raw: RawFinding) -> tuple[Epoch, Epoch]:
    """Return the earlier and the later epoch of a race or of a recycled barrier."""
    detail = raw.detail
    earlier = detail.get("other_cta", raw.cta), raw.other_warp, detail["other_interval"]
    return earlier, (raw.cta, raw.warp, detail["interval"])


class Edge(NamedTuple):
    """The last synchronization by which one warp observed another; it may lead through further warps.

    The other warp performed `given`, and the observing warp `taken`.
    """

    given: Event
    taken: Event


class Chain(NamedTuple):
    """The synchronization around two accesses that should be ordered, from which the missing part can be inferred."""

    forth: Edge | None
    """the last edge from the earlier warp to the later one before the later access; the earlier warp gave it before its
    access, or the two would be ordered"""
    back: Edge | None
    """the last edge from the later warp to the earlier one before the earlier access"""
    following: Event | None
    """the operation that ends the interval of the earlier access: the next one that could release it"""


def chain(trace: Trace, earlier: Epoch, later: Epoch, *, atomics: bool = True, uncounted: Container[int] = ()) -> Chain:
    """Return the synchronization around two unordered epochs of different warps."""
    one, two = earlier[:2], later[:2]
    operations = {
        (e.cta, e.warp, e.interval): e for e in trace.events if e.kind in _ENDS and (e.cta, e.warp) in (one, two)
    }
    forth = back = None
    for actor, known, edge in _edges(trace, operations, (one, two), HappensBefore(atomics, uncounted)):
        if actor == two and known <= later[2]:
            forth = edge
        elif actor == one and known <= earlier[2]:
            back = edge
    return Chain(forth, back, operations.get(earlier))


def _edges(
    trace: Trace, operations: dict[Epoch, Event], actors: tuple[Actor, Actor], order: HappensBefore
) -> Iterator[tuple[Actor, int, Edge]]:
    """Yield (actor, its first interval after the edge, edge) for each time that one of two actors observes the
    other."""
    took: dict[Actor, Event] = {}
    for event in trace.events:
        if event.kind in _TAKES:
            took[event.cta, event.warp] = event
        before = [order.clock(taker).get(giver, 0) for taker, giver in (actors, actors[::-1])]
        order.apply(event)
        for (taker, giver), old in zip((actors, actors[::-1]), before, strict=True):
            now = order.clock(taker).get(giver, 0)
            if now > old and (*giver, now) in operations:
                yield taker, order.interval(taker), Edge(operations[*giver, now], took[taker])
