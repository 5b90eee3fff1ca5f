"""Every interleaving of a program whose warps diverge (lanes.py), from the text of docs/semantics.md.

How the lanes of a warp come to its barrier operations is said in lane_control.py.  Of several warps:

B14  Lanes at a named barrier wait until all live lanes of their warp are at the same operation of it, wherever in the
     code, or have exited.  Then the warp is counted once.
B12  Lanes of a warp at two different barrier operations, or at an aligned one from two places, are an error, which ends
     the launch; an aligned one that others pass by is an error, too, and counts its warp.
B5   A generation has one count and one kind of operation; with a count and without one go together only if all warps
     of the CTA wait.  B7, B8: the whole CTA is its live warps, a count is a count.

What a class of lanes does between such operations disturbs no other warp, so the states are those after each barrier
operation and each exit of a warp, and all orders of these are visited; a warp that an error ended is like one that is
slow.

Which accesses happen before which is asked of one execution: where no two interleavings differ in the generation of an
operation, all have the same order.  Lanes know what they did, what those knew who met them in a syncwarp (lanes that
have exited, too, if the mask names them), and, after a sync or red, what those knew who took part in its generation
when they did: the lanes that executed the operations, no others of their warps; without a count also the threads that
have exited (B7).  Lanes that execute one store together write one value here, which is no conflict; lanes that execute
it apart are two accesses like any others.  They write one value, too: if that is all that is wrong, and no chance
steers, it is a warning (docs/limits.md).

This file knows nothing of wsemu: it is what its verdicts are judged by.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import product
from typing import Final, NamedTuple

from tests.properties.explorer import ALL_ARRIVE, DEADLOCK, GENERATIONS, MISMATCH, RACE, Outlook
from tests.properties.lane_control import APART, DIVERGENCE, GONE, RUNS, WAITS, Control, Thread, Threads, Watcher, unite
from tests.properties.lanes import (
    ARRIVES,
    ATOMIC,
    CLASSES,
    EVERYONE,
    LANES,
    PLACES,
    READ,
    REDUCES,
    WRITE,
    Act,
    Block,
    If,
    Lanes,
    Loop,
    Statement,
    Steer,
    Step,
    bytes_of,
    meet,
    predicate,
    unrolled,
)

INTRA = "intra-warp-race"
CHANCE = "chance"
"""an atomic's result that steers: like APART it leaves a launch undecided"""
LANE_FAULTS: Final = (DEADLOCK, MISMATCH, ALL_ARRIVE, DIVERGENCE, GENERATIONS, RACE, INTRA)


class Barrier(NamedTuple):
    """The open generation of a barrier."""

    generation: int = 0
    arrived: int = 0
    threads: int = 0
    counted: bool = False
    """true if some operations give a count; `whole`: some do not; `gives`: some are arrives"""
    whole: bool = False
    gives: bool = False
    waits: bool = False
    reduction: str = ""
    votes: int = 0
    voters: int = 0


class State(NamedTuple):
    warps: tuple[Threads, ...]
    left: tuple[bool, ...]
    """warps that have exited"""
    barriers: tuple[Barrier, ...]


class FaultError(Exception):
    """Raised if the launch cannot continue."""


SILENT: Final = Watcher()


class Interleavings:
    """Visits the states of a program without chances."""

    def __init__(self, program: Lanes) -> None:
        self.faults: set[str] = set()
        self.ends: set[str] = set()
        """the faults in which interleavings end early"""
        steps = [[unrolled(block, own) for own in range(len(CLASSES))] for block in program]
        self.warps = [Control(w, classes, self.faults, self.ends) for w, classes in enumerate(steps)]
        self.whole = LANES * len(program)
        self.numbers = sorted({s.number for classes in steps for one in classes for s in one if s.is_barrier})
        self.generation: dict[tuple[int, frozenset[tuple[int, int]]], int] = {}
        self.completes = False

    def start(self, watcher: Watcher) -> State:
        warps = tuple(warp.settled(warp.start(), watcher) for warp in self.warps)
        return State(warps, (False,) * len(warps), (Barrier(),) * len(self.numbers))

    def explore(self) -> None:
        seen = {self.start(SILENT)}
        todo = list(seen)
        while todo:
            state = todo.pop()
            movable = list(self.movable(state))
            if not movable:
                self._ended(state)
            for warp in movable:
                try:
                    following = self.step(state, warp, SILENT)
                except FaultError as fault:
                    self.ends.add(str(fault))
                    continue
                if following not in seen:
                    seen.add(following)
                    todo.append(following)
        self.faults |= self.ends

    def _ended(self, state: State) -> None:
        if all(state.left):
            self.completes = True
        elif not any(warp.broken(threads) for warp, threads in zip(self.warps, state.warps, strict=True)):
            self.ends.add(DEADLOCK)

    def execute(self, watcher: Watcher) -> None:
        """Execute one interleaving to its end."""
        with suppress(FaultError):
            state = self.start(watcher)
            while movable := list(self.movable(state)):
                state = self.step(state, movable[0], watcher)

    def movable(self, state: State) -> Iterator[int]:
        """Yield the warps that can exit, or count."""
        for w, threads in enumerate(state.warps):
            if all(thread.how == GONE for thread in threads):
                if not state.left[w]:
                    yield w
            elif self.warps[w].counting(threads):
                yield w

    def step(self, state: State, w: int, watcher: Watcher) -> State:
        """Return the state after a warp's next barrier operation or its exit."""
        warp, threads = self.warps[w], state.warps[w]
        if all(thread.how == GONE for thread in threads):
            return self._exit(state, w, watcher)
        stood = warp.counting(threads)
        first = stood[min(stood)]
        state = self._counted(state, w, stood, watcher)
        if first.kind not in ARRIVES:
            return state
        now = list(state.warps[w])
        for own in stood:
            now[own] = now[own].onward()
        unite(now, stood)
        return self._put(state, 0, state.barriers[0], {w: warp.settled(tuple(now), watcher)})

    def _counted(self, state: State, w: int, stood: dict[int, Step], watcher: Watcher) -> State:
        """Return the state after an operation of some classes; those that arrive have not continued yet."""
        threads, first = state.warps[w], stood[min(stood)]
        self._converged(threads, stood)
        k = self.numbers.index(first.number)
        barrier = state.barriers[k]
        arrives = first.kind in ARRIVES
        barrier = self._joined(state, barrier, first, arrives)
        key = w, frozenset((own, threads[own].at) for own in stood)
        if self.generation.setdefault(key, barrier.generation) != barrier.generation:
            self.faults.add(GENERATIONS)
        if first.kind in REDUCES:
            barrier = self._voted(barrier, w, stood)
        exited = frozenset(own for own in EVERYONE if threads[own].how == GONE and not first.threads)
        watcher.gives(w, exited.union(stood), k)
        waits = RUNS if arrives else WAITS
        after = tuple(t._replace(how=waits) if own in stood else t for own, t in enumerate(threads))
        return self._closed(self._put(state, k, barrier, {w: after}), k, watcher)

    def _converged(self, threads: Threads, stood: dict[int, Step]) -> None:
        """Check B12 and B14: the lanes at barriers are at the same one, and those at an aligned one are all lanes."""
        first = stood[min(stood)]
        operations = {(step.kind, step.number, step.threads) for step in stood.values()}
        if len(operations) > 1 or (first.aligned and len({step.place for step in stood.values()}) > 1):
            raise FaultError(DIVERGENCE)
        if first.aligned and any(thread.how != GONE for own, thread in enumerate(threads) if own not in stood):
            self.faults.add(DIVERGENCE)

    def _joined(self, state: State, barrier: Barrier, step: Step, arrives: bool) -> Barrier:
        """Return the open generation with one more operation (B5)."""
        reduction = REDUCES.get(step.kind, "")
        opens = not barrier.arrived
        if opens:
            barrier = Barrier(barrier.generation, 0, step.threads, reduction=reduction)
        same = (barrier.threads or self.whole) == (step.threads or self.whole) and barrier.reduction == reduction
        barrier = barrier._replace(
            arrived=barrier.arrived + LANES,
            counted=barrier.counted or step.threads > 0,
            whole=barrier.whole or step.threads == 0,
            gives=barrier.gives or arrives,
            waits=barrier.waits or not arrives,
        )
        if not same or self._contradicts(barrier, state.left):
            raise FaultError(MISMATCH)
        return barrier

    def _contradicts(self, barrier: Barrier, left: tuple[bool, ...]) -> bool:
        """Return whether one generation has operations with and without a count, unless all warps of the CTA are sure
        to wait."""
        return barrier.counted and barrier.whole and (barrier.gives or any(left))

    @staticmethod
    def _voted(barrier: Barrier, w: int, stood: dict[int, Step]) -> Barrier:
        votes = [predicate(int(step.detail), w, lane) for own, step in stood.items() for lane in CLASSES[own]]
        return barrier._replace(votes=barrier.votes + sum(votes), voters=barrier.voters + len(votes))

    def _closed(self, state: State, k: int, watcher: Watcher) -> State:
        """Return the state after a generation's completion, if its count is met."""
        barrier = state.barriers[k]
        if not barrier.arrived or barrier.arrived < (barrier.threads or LANES * state.left.count(False)):
            return state
        if not barrier.waits:
            self.faults.add(ALL_ARRIVE)
        watcher.completes(k, barrier.whole)
        moved = {w: after for w in range(len(self.warps)) if (after := self._released(state, w, k, watcher))}
        state = self._put(state, k, Barrier(barrier.generation + 1), moved)
        settled = {w: self.warps[w].settled(threads, watcher) for w, threads in moved.items()}
        return self._put(state, k, state.barriers[k], settled)

    def _released(self, state: State, w: int, k: int, watcher: Watcher) -> Threads:
        """Return a warp whose classes continue from a generation, or nothing if none of them waits in it."""
        now = list(state.warps[w])
        stood = {own: self.warps[w].at(own, thread) for own, thread in enumerate(now) if thread.how == WAITS}
        if not any(step.number == self.numbers[k] for step in stood.values()):
            return ()
        for own, step in stood.items():
            watcher.takes(w, own, k)
            now[own] = now[own].onward(self._following(step, now[own], state.barriers[k]))
        unite(now, stood)
        return tuple(now)

    @staticmethod
    def _following(step: Step, thread: Thread, barrier: Barrier) -> int:
        """Return the step of a class after a generation."""
        result = {
            "": -1,
            "popc": barrier.votes,
            "and": int(barrier.votes == barrier.voters),
            "or": int(barrier.votes > 0),
        }[barrier.reduction]
        return thread.at + 1 if step.equal in (-1, result) else step.target

    def _exit(self, state: State, warp: int, watcher: Watcher) -> State:
        """Let a warp exit (B7)."""
        watcher.exits(warp)
        left = tuple(gone or w == warp for w, gone in enumerate(state.left))
        state = state._replace(left=left)
        if all(left):
            return state
        for k, barrier in enumerate(state.barriers):
            if barrier.arrived and self._contradicts(barrier, left):
                raise FaultError(MISMATCH)
            if barrier.arrived and not barrier.threads:
                state = self._closed(state, k, watcher)
        return state

    @staticmethod
    def _put(state: State, k: int, barrier: Barrier, warps: dict[int, Threads]) -> State:
        barriers = (*state.barriers[:k], barrier, *state.barriers[k + 1 :])
        return State(tuple(warps.get(w, old) for w, old in enumerate(state.warps)), state.left, barriers)


# -- what happens before what ------------------------------------------------------------------------------------------

Actor = tuple[int, int]
"""(warp, class)"""
Clock = dict[Actor, int]
"""actor -> its last interval that is known to have ended"""


class Access(NamedTuple):
    actor: Actor
    interval: int
    step: Step

    @property
    def bytes(self) -> frozenset[int]:
        """Return the bytes of its row that its lanes touch."""
        return frozenset(byte for lane in CLASSES[self.actor[1]] for byte in bytes_of(self.step.detail, lane))


def learn(clock: Clock, other: Clock) -> None:
    for actor, interval in other.items():
        clock[actor] = max(clock.get(actor, 0), interval)


@dataclass
class Order(Watcher):
    """The clocks of all classes in one execution, and the accesses that nothing orders."""

    interval: dict[Actor, int] = field(default_factory=dict)
    known: dict[Actor, Clock] = field(default_factory=dict)
    """the clocks of the lanes of a class, also of each other: `known[a][a]` is what each lane has observed that the
    others did"""
    given: dict[int, Clock] = field(default_factory=dict)
    taken: Clock = field(default_factory=dict)
    """the clock that the generation that completed last was given"""
    exited: Clock = field(default_factory=dict)
    accesses: list[Access] = field(default_factory=list)
    conflicts: set[tuple[int, int]] = field(default_factory=set)
    """pairs of accesses, in both orders"""

    @property
    def faults(self) -> set[str]:
        """Return the faults, except those of stores of one value."""
        warps = [access.actor[0] for access in self.accesses]
        return {INTRA if warps[a] == warps[b] else RACE for a, b in self.conflicts if not self._of_one_value(a, b)}

    @property
    def same(self) -> bool:
        """Return whether lanes of a warp execute one store separately: each statement stores a value of its own."""
        return any(self._of_one_value(a, b) for a, b in self.conflicts)

    def _of_one_value(self, one: int, other: int) -> bool:
        (first, _, step), (second, _, peer) = self.accesses[one], self.accesses[other]
        return step.kind == WRITE and (first[0], step.place) == (second[0], peer.place)

    @property
    def hidden(self) -> bool:
        """Whether of all that race between warps one may have been replaced when the other comes: by a store of its
        warp with which it races, but the other does not."""
        warps = [access.actor[0] for access in self.accesses]
        races = [(a, b) for a, b in self.conflicts if warps[a] < warps[b]]
        return all(
            any(self._replaces(c, a, b, byte) or self._replaces(c, b, a, byte) for c in range(len(warps)))
            for a, b in races
            for byte in self.accesses[a].bytes & self.accesses[b].bytes
        )

    def _replaces(self, store: int, one: int, other: int, byte: int) -> bool:
        made, lost = self.accesses[store], self.accesses[one]
        return (
            made.step.kind == WRITE
            and made.actor[0] == lost.actor[0]
            and made.step.number == lost.step.number
            and byte in made.bytes
            and (store, one) in self.conflicts
            and (store, other) not in self.conflicts
        )

    def _told(self, warp: int, classes: frozenset[int]) -> Clock:
        """Return everything that lanes have done and observed; their next interval begins."""
        told: Clock = {}
        for own in classes:
            actor = warp, own
            now = self.interval.get(actor, 1)
            learn(told, self.known.setdefault(actor, {}))
            learn(told, {actor: now})
            self.interval[actor] = now + 1
        return told

    def meets(self, warp: int, classes: frozenset[int]) -> None:
        told = self._told(warp, classes)
        for own in classes:
            learn(self.known[warp, own], told)

    def gives(self, warp: int, classes: frozenset[int], barrier: int) -> None:
        learn(self.given.setdefault(barrier, {}), self._told(warp, classes))

    def completes(self, barrier: int, whole: bool) -> None:
        self.taken = self.given.pop(barrier)
        if whole:
            learn(self.taken, self.exited)

    def takes(self, warp: int, own: int, barrier: int) -> None:
        learn(self.known[warp, own], self.taken)

    def exits(self, warp: int) -> None:
        learn(self.exited, self._told(warp, EVERYONE))

    def access(self, warp: int, steps: dict[int, Step]) -> None:
        before = list(enumerate(self.accesses))
        for own, step in steps.items():
            actor, now = (warp, own), len(self.accesses)
            known = self.known.setdefault(actor, {})
            for n, other in before:
                if known.get(other.actor, 0) < other.interval and _conflict(actor, step, other):
                    self.conflicts |= {(now, n), (n, now)}
            self.accesses.append(Access(actor, self.interval.setdefault(actor, 1), step))


def _conflict(actor: Actor, step: Step, other: Access) -> bool:
    """Return whether two unordered accesses of different lanes touch one byte and one of them changes it."""
    (warp, own), (other_warp, others) = actor, other.actor
    if step.number != other.step.number:
        return False
    kinds = step.kind, other.step.kind
    if kinds == (READ, READ):
        return False
    if kinds == (ATOMIC, ATOMIC) and PLACES[step.detail].size == PLACES[other.step.detail].size:
        return False
    return meet(step.detail, own, other.step.detail, others, warp == other_warp)


# -- all together ------------------------------------------------------------------------------------------------------


def resolved(program: Lanes) -> Iterator[Lanes]:
    """Yield the program without its chances, once for each way in which they may be decided."""
    number = sum(map(_chances, program))
    ways = ((True,),) if number == 1 and _is_the_only_one(program) else ((True, False),) * number
    for answers in product(*ways):
        rest = list(answers)
        yield tuple(_decided(block, rest) for block in program)


def _is_the_only_one(program: Lanes) -> bool:
    """Return whether the only chance is one lane's, executed once, whose word no other thread changes: the result is
    then 0, which is even."""
    chances: list[int] = []
    changed: set[int] = set()

    def walk(block: Block, times: int) -> None:
        for statement in block:
            match statement:
                case If(group, then, other):
                    walk(then, min(times, 1) if group == "one" else times)
                    walk(other, times)
                case Loop(_, _, body):
                    walk(body, 2)
                case Steer(act, _, then, other):
                    chances.extend([act.number] * times * (act.kind == ATOMIC))
                    walk(then, times)
                    walk(other, times)
                case Act(kind, number, stride) if kind in (WRITE, ATOMIC):
                    changed.update(range(100) if stride else [number])

    for block in program:
        walk(block, LANES)
    return len(chances) == 1 and chances[0] not in changed


def _chances(block: Block) -> int:
    number = 0
    for statement in block:
        match statement:
            case If(_, then, other):
                number += _chances(then) + _chances(other)
            case Loop(_, _, body):
                number += _chances(body)
            case Steer(act, _, then, other):
                number += (act.kind == ATOMIC) + _chances(then) + _chances(other)
    return number


def _decided(block: Block, answers: list[bool]) -> Block:
    made: list[Statement] = []
    for statement in block:
        match statement:
            case If(group, then, other):
                made.append(If(group, _decided(then, answers), _decided(other, answers)))
            case Loop(times, more, body):
                made.append(Loop(times, more, _decided(body, answers)))
            case Steer(act, equal, then, other) if act.kind == ATOMIC:
                decided = answers.pop()
                made.append(Steer(act, int(decided), _decided(then, answers), _decided(other, answers)))
            case Steer(act, equal, then, other):
                made.append(Steer(act, equal, _decided(then, answers), _decided(other, answers)))
            case _:
                made.append(statement)
    return tuple(made)


class LaneOutlook(NamedTuple):
    """What the interleavings of a program show."""

    each: tuple[Outlook, ...]
    """however its chances are decided"""
    open: frozenset[str]
    """APART, CHANCE: what is not decided"""
    hidden: frozenset[str]
    """the faults that one run need not show"""
    same: bool
    """stores of one value are all that nothing orders"""

    @property
    def faults(self) -> frozenset[str]:
        return frozenset().union(*(one.faults for one in self.each))

    @property
    def verdicts(self) -> set[str]:
        """Return the correct verdicts."""
        faulty = [bool(one.faults) for one in self.each]
        if APART in self.open:
            return {"failed", "incomplete"}
        if CHANCE not in self.open:
            return {"failed"} if faulty[0] else {"verified"}
        if len(faulty) > 1 and all(faulty):
            return {"failed"}
        return {"failed" if any(faulty) else "verified", "incomplete"}

    def always_ends_in(self, fault: str) -> bool:
        return all(one.always_ends_in(fault) for one in self.each)


def lane_outlook(program: Lanes) -> LaneOutlook:
    """Return all possible behavior."""
    each = []
    left = {CHANCE} if any(map(_chances, program)) else set[str]()
    hidden, same = True, False
    for one in resolved(program):
        ways, order = Interleavings(one), Order()
        ways.explore()
        ways.execute(order)
        left |= ways.faults & {APART}
        hidden &= order.hidden
        faults = ways.faults - {APART} | order.faults
        same = order.same and not faults and not left
        faults |= {INTRA} if order.same and not same else set()
        each.append(Outlook(frozenset(faults), ways.completes, frozenset(ways.ends)))
    return LaneOutlook(tuple(each), frozenset(left), frozenset({RACE} if hidden else ()), same)
