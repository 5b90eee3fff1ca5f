"""Happens-before: which operations of a run come before which others in every schedule that keeps its generations.

Definitions, as in Sharma, Bauer, Aiken, "Verification of Producer-Consumer Synchronization in GPU Programs" (PLDI
2015), section 3, expressed with the clocks of Flanagan, Freund, "FastTrack" (PLDI 2009):

`interval`    A part of a warp's program between two of its operations that release or acquire, counted from 1 in each
              CTA.  Arrive, sync (when it is released), fence and warp-wide operations end one and begin the next.
`epoch`       (CTA, warp, interval): the time of a warp's action.
`actor`       (CTA, warp).
`clock`       For an actor: the last interval of every actor that happens before now; its own entry is the present.
`generation`  For a barrier: its operations from one completion to the next.
`give`        An actor that gives adds its clock, the present interval included, to a generation (a location).
`take`        An actor that takes joins what was given into its own clock, actor by actor the later interval.

An epoch happens before what an actor does now iff the actor's clock has reached its interval: `before`.

Rules, each a method:

`arrive`      Gives to the current generation of its barrier, and takes nothing (B13).
`sync`        Gives to it as well, and waits.
`lanes`       If part of a warp executes an arrive or sync, only these lanes give and take (B14).  From then on each
              lane of the CTA has its own clock (`_Threads`); its warp's clock is the union of them.
`complete`    Ends a generation: each of its syncs takes what all its operations gave.  If they have no count (the
              whole CTA), warps that have exited belong to it, and also give their clocks (B7).
`exit`        Gives to the generations without a count that complete from then on.
`warp`        A syncwarp, shuffle, vote or match orders the lanes that execute it, not warps.  It also orders lanes that
              have exited, if its mask names them.  Afterwards a lane knows what any of them knew.
`fence`       With atomics, acquires: it takes what the locations have given to the atomics since, and marks what the
              next atomics release.
`atomic`      With atomics, gives to its location the clock of the warp's last fence, if there was one, and records what
              the location was given so far.  Without fences on both sides it only orders what follows it after the
              atomics on its location that it observed.

PTX ISA, "Memory Consistency Model", release and acquire patterns: fence; atomic on L -> atomic on L; fence.  A fence of
CTA scope does that inside its CTA, one of a cluster inside that, those of scope gpu and sys do it between CTAs, where
both fences must.  A warp is taken as one thread here: a fence of one lane counts for all.  PTX ISA, "barrier": sync and
arrive order memory among the participating threads.
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
"""for each actor, the last of its intervals known to happen before a point in time; 0 if the actor is missing"""
Known = dict[int, list[int]]
"""for each warp and each of its lanes, the last interval whose operations are observed"""
_TAKES: tuple[EventKind, ...] = ("sync", *FENCES)
_ENDS: tuple[EventKind, ...] = ("arrive", "warp", "exit", *_TAKES)
"""events that end an interval; an exit ends the last one"""


def uncounted_barriers(program: Program) -> frozenset[int]:
    """Return the barrier instructions of a program without a count, in which the whole CTA takes part."""
    operations = ((pc, OPERATIONS[NAMES[fields[0]]], fields[4]) for pc, fields in enumerate(program.code.tolist()))
    return frozenset(pc for pc, operation, count in operations if operation.kind == "barrier" and not count)


def join(clock: Clock, other: Clock) -> None:
    """Add the knowledge of `other` to `clock`."""
    for actor, interval in other.items():
        if interval > clock.get(actor, 0):
            clock[actor] = interval


@dataclass(slots=True)
class _Generation:
    """The open generation of a barrier."""

    given: Clock = field(default_factory=dict)
    syncs: list[tuple[Actor, int]] = field(default_factory=list)
    """with the lanes that wait"""
    uncounted: bool = False


@dataclass(slots=True)
class _Lanes:
    """The mutual knowledge of a warp's lanes: all operations up to interval `met`; `known[lane][other]` may be
    later."""

    met: int = 0
    known: dict[int, dict[int, int]] = field(default_factory=dict)
    all: int = ALL_LANES


def join_lanes(known: Known, other: Known) -> None:
    """Add the knowledge of `other` to `known`."""
    for warp, intervals in other.items():
        known[warp] = [*map(max, known[warp], intervals)] if warp in known else list(intervals)


def _spread(clock: Clock) -> Known:
    """Return the knowledge in a clock of warps, lane by lane."""
    return {warp: [interval] * LANES for (_, warp), interval in clock.items()}


@dataclass(slots=True)
class _Threads:
    """The clocks of a CTA's lanes, which exist once part of a warp has executed a barrier."""

    known: defaultdict[tuple[int, int], Known] = field(default_factory=lambda: defaultdict(dict))
    """knowledge of each (warp, lane)"""
    given: defaultdict[int, Known] = field(default_factory=lambda: defaultdict(dict))
    """knowledge that the current generation of each barrier was given"""
    exited: Known = field(default_factory=dict)

    def give(self, to: Known, warp: int, lanes: int, now: int) -> None:
        """Add to `to` what some lanes of a warp have observed, and have done up to the current interval."""
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
"""reach of a fence: its CTA, its cluster, all threads"""
Given = dict[tuple[int, int], Clock]
"""released knowledge, by (CTA that released it, scope of its fence)"""


class HappensBefore:
    """The clocks of all warps of a launch, as its operations happen one after another.

    With `atomics` false barriers alone order, as engines detect; `uncounted` are the barrier instructions that give no
    count (the whole CTA takes part).  `lockstep`: the lanes of a warp do everything together.  `whole`: what a part of
    a warp does at a barrier orders nothing.  `cluster_of`: of a CTA; without clusters it is one by itself.
    `cluster_wide` are the fences of that scope.
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
        """Apply one operation.  Accesses change nothing."""
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

    def before(self, epoch: Epoch, actor: Actor) -> bool:
        """Return whether all that was done in an epoch, up to now, happens before what the actor does now."""
        cta, warp, interval = epoch
        return interval <= self.clock(actor).get((cta, warp), 0)

    def has_lane_clocks(self, cta: int, lanes: int = ALL_LANES) -> bool:
        """Return whether the lanes of a CTA have clocks of their own, or will, if some lanes take part in a barrier
        now."""
        return cta in self._threads or (lanes != ALL_LANES and not self.lockstep)

    def lane_happens_before(self, actor: Actor, interval: int, lane: int, later: Actor, later_lane: int) -> bool:
        """Return whether what a lane of a warp did in an interval of it comes before what a lane of a warp of its CTA
        does now."""
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
        """Return whether what lanes `first_lane` to `last_lane` of a warp did in an interval of it comes before what
        its lane `lane` does now."""
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
            join(generation.given, self.clock(actor))
        generation.uncounted |= event.pc in self.uncounted
        return generation

    def _part(self, cta: int) -> _Threads:
        """Give each lane of a CTA a clock of its own.  Until now, its warp's clock sufficed."""
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
        if generation.uncounted or (event.cta, event.warp) in self._gone:  # it was this warp's exit that completed it
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
        join(self._exited[event.cta], self.clock((event.cta, event.warp)))
        if threads := self._threads.get(event.cta):
            threads.give(threads.exited, event.warp, ALL_LANES, self.interval((event.cta, event.warp)))

    # -- lanes --------------------------------------------------------------------------------------------------------

    def warp(self, event: Event) -> None:
        actor = event.cta, event.warp
        self._meet(actor, event.place & ALL_LANES)
        self._begin_interval(actor)

    def set_lanes(self, actor: Actor, lanes: int) -> None:
        """Set the lanes that a warp has from its start: the last warp of a CTA may have fewer than 32."""
        self._lanes[actor].all = lanes

    def _meet(self, actor: Actor, members: int) -> None:
        """Synchronize the lanes `members`."""
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
            for (cta, other), given in self._seen[actor].items():
                if min(reach, other) >= self._apart(cta, event.cta):
                    join(clock, given)
            for within in range(reach + 1):
                self._fenced[actor][event.cta, within] = dict(clock)
        self._begin_interval(actor)

    def _apart(self, cta: int, other: int) -> int:
        """Return the scope that fences of two CTAs need."""
        if cta == other:
            return OF_CTA
        return OF_CLUSTER if self._cluster_of(cta) == self._cluster_of(other) else OF_ALL

    def atomic(self, event: Event) -> None:
        if not self.atomics:
            return
        actor, address = (event.cta, event.warp), event.place & ~ADDRESS_WRAPPED
        # each cluster has a shared memory of its own
        own = self._cluster_of(event.cta) if address >> SEGMENT_SHIFT == SHARED else -1
        location = self._locations[own, address]
        for key, given in location.items():
            join(self._seen[actor].setdefault(key, {}), given)
        for key, given in self._fenced[actor].items():
            join(location.setdefault(key, {}), given)

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
    """Return, for each pair of an earlier and a later epoch of different warps, whether the earlier one happens before
    the later one.  `whole` is the parameter of `HappensBefore`; `order` replaces such an object.

    One pass serves all pairs: a clock changes only when an interval begins, so any time in the later interval can be
    used.  Epochs beyond the end of an incomplete trace count as unordered.
    """
    order = order or HappensBefore(atomics, uncounted, whole=whole)
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
        order.apply(event)
    for epoch in list(asked):
        if order.interval(epoch[:2]) == epoch[2]:
            answer(epoch)
    return answers


class Asynchronous(NamedTuple):
    """The additional orders of launches with asynchronous operations."""

    order: Callable[[], HappensBefore]
    """function that returns new clocks, with the rules of the launch"""
    ends: Callable[[Trace, RawFinding], set[Epoch]]
    """function that returns when warps have observed the end of the copy that performed the earlier access of a race"""
    begins: Callable[[Trace, RawFinding], set[Epoch]]
    """function that returns when copies were issued that may have performed the later access of a race"""


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
    """Return the races and recycled barriers that atomics and fences order, in the run of this trace. Barriers alone
    did not order them, or they would not have been found. Findings of other codes are never among them.

    `observed`: what an atomic observes counts as well, without fences.  That is for launches in which some access may
    be made because of what an atomic returned; elsewhere the atomics of other schedules observe other things, and all
    accesses are made nevertheless.  For a race whose earlier access is atomic, the trace should have the later
    accesses: see `_observers`.  `cluster_of` a CTA; `wide`: the fences of that scope.
    `compares`: `cas`, whose writes depend on the order as well; `acquires`: strong reads that acquire themselves, and
    so come after what they synchronize with."""
    asked = [
        raw for raw in findings if raw.code in ("race", "barrier-recycling") and (more or not _is_asynchronous(raw))
    ]
    pairs, of = [], []
    ends: dict[int, set[Epoch]] = {}
    """for each finding, the later accesses, each of which must be ordered"""
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
    for whole in (False, True):  # lane by lane barriers of parts of warps did not order them: only the rest counts
        chosen = [k for k, n in enumerate(of) if ("other_lane" in asked[n].detail) == whole]
        plain = functools.partial(HappensBefore, True, uncounted, whole=whole, cluster_of=cluster_of, cluster_wide=wide)
        answers = are_ordered(trace, [pairs[k] for k in chosen], order=more.order() if more else plain())
        for k, answer in zip(chosen, answers, strict=True):
            ends[of[k]] -= {pairs[k][1]} if answer else set()
        settled |= {of[k] for k in chosen if not ends[of[k]]}
    return [raw for n, raw in enumerate(asked) if n in settled]


def _is_asynchronous(raw: RawFinding) -> bool:
    """Return whether one side is an asynchronous copy: atomics of threads do not order that."""
    return "async" in raw.detail or "other_async" in raw.detail


def _observers(trace: Trace, raw: RawFinding, cluster_of: Callable[[int], int]) -> set[Epoch]:
    """Return the epochs of all warps' atomics on the address of a race between its two accesses.  The earlier access is
    an atomic; the later one is plain, or not atomic with it.

    PTX ISA, "Causality order": a write comes before what follows an atomic that observes it, on the same address and
    without any fence.  So the last CTA may reset the counter that it was told by to be the last one."""
    if raw.code != "race" or raw.detail.get("other_kind") != ATOMIC:
        return set()
    earlier, later = epochs(raw)
    address = raw.detail["address"]
    shared = address >> SEGMENT_SHIFT == SHARED  # each cluster has a shared memory of its own
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
    """Return the earlier and the later epoch of a race or a recycled barrier."""
    detail = raw.detail
    earlier = detail.get("other_cta", raw.cta), raw.other_warp, detail["other_interval"]
    return earlier, (raw.cta, raw.warp, detail["interval"])


class Edge(NamedTuple):
    """The last synchronization by which one warp observed another: `given` by the other, `taken` by the one; further
    warps may be between the two."""

    given: Event
    taken: Event


class Chain(NamedTuple):
    """The existing and the missing part of a chain between an access and a later one that it should happen before."""

    forth: Edge | None
    """the last edge from the earlier warp to the later one before the later access; it was given before the earlier
    access, or they would be ordered"""
    back: Edge | None
    """the last edge from the later warp to the earlier one before the earlier access"""
    following: Event | None
    """the operation that ends the interval of the earlier access, and is the next one that could release it"""


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
