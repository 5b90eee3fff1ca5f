"""Every interleaving of a program whose warps come apart (lanes.py), from the text of docs/semantics.md.

Each class of lanes is a thread of control of its own.  Nothing holds it back but what the rules say:

B14  Lanes at a named barrier wait until all live lanes of their warp are at the same operation of it, wherever in the
     code, or have exited.  Then the warp is counted once.  Lanes at a syncwarp that names such lanes wait for them, and
     these for them: a deadlock.
B12  Lanes of a warp at two different barrier operations, or at an aligned one from two places, are an error; so are
     those that pass by an aligned one, or by a syncwarp that names them.  Lanes that return before it, or in another
     branch, are not missed.
B5   A generation has one count and one kind of operation; with a count and without one go together only if all warps
     of the CTA wait.  B7, B8: the whole CTA is its live warps, a count is a count.

What a class does between such operations disturbs nobody, so the states are those after each barrier operation and each
exit of a warp, and all orders of these are visited.

Which accesses happen before which is asked of one execution: where no two interleavings differ in the generation of an
operation, all have the same order.  Lanes know what they did, what those knew who met them in a syncwarp (lanes that
have exited, too, if the mask names them), and, after a sync or red, what those knew who took part in its generation
when they did: the lanes that executed the operations, no others of their warps; without a count also the threads that
have exited (B7).

This file knows nothing of wsemu: it is what its verdicts are judged by.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import product
from typing import Final, NamedTuple

from tests.properties.explorer import ALL_ARRIVE, DEADLOCK, GENERATIONS, MISMATCH, RACE, Outlook
from tests.properties.lanes import (
    ACCESSES,
    ARRIVES,
    ATOMIC,
    CLASSES,
    EVERYONE,
    EXIT,
    JUMP,
    LANES,
    PLACES,
    READ,
    REDUCES,
    SOME,
    THEN,
    WARP,
    Block,
    If,
    Lanes,
    Loop,
    Statement,
    Steer,
    Step,
    meet,
    predicate,
    unrolled,
)

INTRA, DIVERGENCE = "intra-warp-race", "barrier-divergence"
APART, CHANCE = "apart", "chance"
"""what leaves a launch undecided: lanes that meet in one syncwarp from two places; an atomic's result that steers"""
LANE_FAULTS: Final = (DEADLOCK, MISMATCH, ALL_ARRIVE, DIVERGENCE, GENERATIONS, RACE, INTRA)
RUNS, WAITS, GONE = range(3)
Thread = tuple[int, int]
"""(step, RUNS or what it does instead)"""


class Barrier(NamedTuple):
    """The open generation of a barrier."""

    generation: int = 0
    arrived: int = 0
    threads: int = 0
    counted: bool = False
    """some operations give a count; `whole`: some do not; `gives`: some are arrives"""
    whole: bool = False
    gives: bool = False
    waits: bool = False
    reduction: str = ""
    votes: int = 0
    voters: int = 0


class State(NamedTuple):
    warps: tuple[tuple[Thread, ...], ...]
    left: tuple[bool, ...]
    """warps that have exited"""
    barriers: tuple[Barrier, ...]


def past(site: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Whether a place in a warp's program comes after another one, and is not in another branch."""
    differ = next(((mine, its) for mine, its in zip(site, other, strict=False) if mine != its), (THEN, THEN))
    return differ[0] >= 0 and differ[0] > differ[1]


class FaultError(Exception):
    """The launch cannot go on."""


@dataclass
class Watcher:
    """What an execution does, for those who ask what happens before what."""

    def access(self, warp: int, own: int, step: Step) -> None: ...
    def meets(self, warp: int, classes: frozenset[int]) -> None: ...
    def gives(self, warp: int, classes: frozenset[int], barrier: int) -> None: ...
    def takes(self, warp: int, own: int, barrier: int) -> None: ...
    def completes(self, barrier: int, whole: bool) -> None: ...
    def exits(self, warp: int) -> None: ...


SILENT: Final = Watcher()


class Interleavings:
    """Visits the states of a program without chances."""

    def __init__(self, program: Lanes) -> None:
        self.threads = [[unrolled(block, own) for own in range(len(CLASSES))] for block in program]
        self.whole = LANES * len(program)
        self.numbers = sorted({s.number for warp in self.threads for t in warp for s in t if s.is_barrier})
        self.generation: dict[tuple[int, frozenset[tuple[int, int]]], int] = {}
        self.faults: set[str] = set()
        self.completes = False

    def start(self, watcher: Watcher) -> State:
        first: tuple[Thread, ...] = ((0, RUNS),) * len(CLASSES)
        warps = tuple(self.settled(w, first, watcher) for w in range(len(self.threads)))
        return State(warps, (False,) * len(warps), (Barrier(),) * len(self.numbers))

    def explore(self) -> None:
        try:
            seen = {self.start(SILENT)}
        except FaultError as fault:
            self.faults.add(str(fault))
            return
        todo = list(seen)
        while todo:
            state = todo.pop()
            movable = list(self.movable(state))
            if any(self.stuck(w, threads) for w, threads in enumerate(state.warps)):
                self.faults.add(DIVERGENCE)
            if not movable:
                self._ended(state)
            for warp in movable:
                try:
                    following = self.step(state, warp, SILENT)
                except FaultError as fault:
                    self.faults.add(str(fault))
                    continue
                if following not in seen:
                    seen.add(following)
                    todo.append(following)

    def _ended(self, state: State) -> None:
        if all(state.left):
            self.completes = True
        else:
            self.faults.add(DEADLOCK)

    def execute(self, watcher: Watcher) -> None:
        """One execution, to its end."""
        with suppress(FaultError):
            state = self.start(watcher)
            while movable := list(self.movable(state)):
                state = self.step(state, movable[0], watcher)

    # -- a warp by itself ----------------------------------------------------------------------------------------------

    def at(self, warp: int, own: int, thread: Thread) -> Step:
        return self.threads[warp][own][thread[0]]

    def settled(self, warp: int, threads: tuple[Thread, ...], watcher: Watcher) -> tuple[Thread, ...]:
        """A warp's classes as far as they come without its barriers."""
        now = list(threads)
        while True:
            for own in EVERYONE:
                now[own] = self._onward(warp, own, now[own], watcher)
            met = self._meeting(warp, now)
            if not met:
                apart = self.apart(warp, now)
                if not apart:
                    return tuple(now)
                self.faults.add(APART)
                for own in apart:
                    now[own] = now[own][0] + 1, RUNS
                continue
            step = self.at(warp, min(met), now[min(met)])
            gone = {own for own in step.members if now[own][1] == GONE}
            if any(self._passes(warp, own, now[own], step) for own in gone):
                raise FaultError(DIVERGENCE)
            watcher.meets(warp, met | gone)
            for own in met:
                now[own] = now[own][0] + 1, RUNS

    def _onward(self, warp: int, own: int, thread: Thread, watcher: Watcher) -> Thread:
        """Accesses and jumps."""
        at, how = thread
        steps = self.threads[warp][own]
        while how == RUNS:
            if at == len(steps) or steps[at].kind == EXIT:
                return at, GONE
            step = steps[at]
            if step.kind in ACCESSES:
                watcher.access(warp, own, step)
                at += 1
            elif step.kind == JUMP:
                at = step.target
            else:
                break
        return at, how

    def _meeting(self, warp: int, now: list[Thread]) -> frozenset[int]:
        """Classes that are all there are, of those alive that it names, at one syncwarp."""
        for own in EVERYONE:
            if now[own][1] != RUNS:
                continue
            step = self.at(warp, own, now[own])
            if step.kind in WARP + SOME:
                named = {c for c in step.members if now[c][1] != GONE}
                if all(now[c][1] == RUNS and self.at(warp, c, now[c]).site == step.site for c in named):
                    return frozenset(named)
        return frozenset()

    def apart(self, warp: int, now: list[Thread]) -> frozenset[int]:
        """Where all live lanes stand, those at syncwarps that name none at a barrier: they meet from different places,
        and go on, which is not modelled."""
        live = [own for own in EVERYONE if now[own][1] != GONE]
        if len(live) < 2 or any(now[own][1] != RUNS for own in live):
            return frozenset()
        return frozenset(live) - self._held(warp, now)

    def _held(self, warp: int, now: Sequence[Thread]) -> frozenset[int]:
        """Classes at barriers, and those at syncwarps that name such lanes, or others that do."""
        steps = {own: self.at(warp, own, now[own]) for own in EVERYONE if now[own][1] != GONE}
        held = {own for own, step in steps.items() if step.is_barrier}
        while more := {own for own, step in steps.items() if own not in held and not held.isdisjoint(step.members)}:
            held |= more
        return frozenset(held)

    # -- barriers ------------------------------------------------------------------------------------------------------

    def movable(self, state: State) -> Iterator[int]:
        """Warps that can exit, or count."""
        for w, threads in enumerate(state.warps):
            if all(how == GONE for _, how in threads):
                if not state.left[w]:
                    yield w
            elif self.counting(w, threads):
                yield w

    def counting(self, warp: int, threads: tuple[Thread, ...]) -> frozenset[int]:
        """The classes of a warp that are counted next: all that live, or none if some must come first."""
        live = [c for c in EVERYONE if threads[c][1] != GONE]
        there = all(threads[c][1] == RUNS and self.at(warp, c, threads[c]).is_barrier for c in live)
        return frozenset(live if there else ())

    def stuck(self, warp: int, threads: tuple[Thread, ...]) -> bool:
        """Whether lanes are at a syncwarp that names others, which stand elsewhere."""
        live = [c for c in EVERYONE if threads[c][1] != GONE]
        meeting = [self.at(warp, c, threads[c]) for c in live if self.at(warp, c, threads[c]).kind in WARP + SOME]
        if any(past(self.at(warp, d, threads[d]).site, s.site) for s in meeting for d in s.members.intersection(live)):
            return True
        if not meeting or any(threads[c][1] != RUNS for c in live):
            return False
        steps = [self.at(warp, c, threads[c]) for c in live]
        return len(self._held(warp, threads)) < len(live) or any(step.is_barrier and step.aligned for step in steps)

    def step(self, state: State, warp: int, watcher: Watcher) -> State:
        """The state after a warp's next barrier operation or its exit."""
        threads = state.warps[warp]
        if all(how == GONE for _, how in threads):
            return self._exit(state, warp, watcher)
        there = self.counting(warp, threads)
        state = self._counted(state, warp, there, watcher)
        arrived = {c for c in there if self.at(warp, c, threads[c]).kind in ARRIVES}
        if not arrived:
            return state
        now = state.warps[warp]
        moved = tuple((now[c][0] + 1, RUNS) if c in arrived else now[c] for c in EVERYONE)
        return self._put(state, 0, state.barriers[0], {warp: self.settled(warp, moved, watcher)})

    def _counted(self, state: State, warp: int, there: frozenset[int], watcher: Watcher) -> State:
        """The state after an operation of some classes; those that arrive have not gone on yet."""
        threads = state.warps[warp]
        first = self.at(warp, min(there), threads[min(there)])
        self._converged(warp, threads, there, first)
        k = self.numbers.index(first.number)
        barrier = state.barriers[k]
        arrives = first.kind in ARRIVES
        barrier = self._joined(state, barrier, first, arrives)
        key = warp, frozenset((c, threads[c][0]) for c in there)
        if self.generation.setdefault(key, barrier.generation) != barrier.generation:
            self.faults.add(GENERATIONS)
        if first.kind in REDUCES:
            barrier = self._voted(barrier, warp, there, threads)
        watcher.gives(warp, there if first.threads else EVERYONE, k)
        waiting = tuple((at, WAITS) if c in there and not arrives else (at, how) for c, (at, how) in enumerate(threads))
        return self._closed(self._put(state, k, barrier, {warp: waiting}), k, watcher)

    def _converged(self, warp: int, threads: tuple[Thread, ...], there: frozenset[int], first: Step) -> None:
        """B12, B14: the lanes at barriers are at the same one, and those at an aligned one are all."""
        steps = [self.at(warp, c, threads[c]) for c in there]
        same = all((s.kind, s.number, s.threads) == (first.kind, first.number, first.threads) for s in steps)
        passing = [c for c in EVERYONE - there if threads[c][1] != GONE or self._passes(warp, c, threads[c], first)]
        if not same or (first.aligned and (len({s.site for s in steps}) > 1 or passing)):
            raise FaultError(DIVERGENCE)

    def _passes(self, warp: int, own: int, thread: Thread, barrier: Step) -> bool:
        """Whether a class that has exited went past a barrier, and did not leave before it or in another branch."""
        steps = self.threads[warp][own]
        if thread[0] == len(steps):
            return True
        return past(steps[thread[0]].site, barrier.site)

    def _joined(self, state: State, barrier: Barrier, step: Step, arrives: bool) -> Barrier:
        """B5: the open generation with one more operation."""
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
        """A count and none in one generation, where not all warps of the CTA are sure to wait."""
        return barrier.counted and barrier.whole and (barrier.gives or any(left))

    def _voted(self, barrier: Barrier, warp: int, there: frozenset[int], threads: tuple[Thread, ...]) -> Barrier:
        lanes = [(c, lane) for c in there for lane in CLASSES[c]]
        votes = sum(predicate(int(self.at(warp, c, threads[c]).detail), warp, lane) for c, lane in lanes)
        return barrier._replace(votes=barrier.votes + votes, voters=barrier.voters + len(lanes))

    def _closed(self, state: State, k: int, watcher: Watcher) -> State:
        """The state after a generation's completion, if its count is met."""
        barrier = state.barriers[k]
        if not barrier.arrived or barrier.arrived < (barrier.threads or LANES * state.left.count(False)):
            return state
        if not barrier.waits:
            self.faults.add(ALL_ARRIVE)
        watcher.completes(k, barrier.whole)
        moved = {}
        for w, threads in enumerate(state.warps):
            released = [
                c for c in EVERYONE
                if threads[c][1] == WAITS and self.at(w, c, threads[c]).number == self.numbers[k]
            ]  # fmt: skip
            if released:
                after = dict(enumerate(threads))
                for c in released:
                    watcher.takes(w, c, k)
                    after[c] = self._released(self.at(w, c, threads[c]), threads[c][0], barrier), RUNS
                moved[w] = tuple(after.values())
        state = self._put(state, k, Barrier(barrier.generation + 1), moved)
        return self._put(state, k, state.barriers[k], {w: self.settled(w, state.warps[w], watcher) for w in moved})

    def _released(self, step: Step, at: int, barrier: Barrier) -> int:
        """Where a class goes on after a generation."""
        result = {
            "": -1,
            "popc": barrier.votes,
            "and": int(barrier.votes == barrier.voters),
            "or": int(barrier.votes > 0),
        }[barrier.reduction]
        return at + 1 if step.equal in (-1, result) else step.target

    def _exit(self, state: State, warp: int, watcher: Watcher) -> State:
        """B7: a warp has exited."""
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
    def _put(state: State, k: int, barrier: Barrier, warps: dict[int, tuple[Thread, ...]]) -> State:
        barriers = (*state.barriers[:k], barrier, *state.barriers[k + 1 :])
        return State(tuple(warps.get(w, old) for w, old in enumerate(state.warps)), state.left, barriers)


# -- what happens before what ------------------------------------------------------------------------------------------

Actor = tuple[int, int]
"""(warp, class)"""
Clock = dict[Actor, int]
"""actor -> the last of its intervals that is known to be over"""


class Access(NamedTuple):
    actor: Actor
    interval: int
    step: Step


def learn(clock: Clock, other: Clock) -> None:
    for actor, interval in other.items():
        clock[actor] = max(clock.get(actor, 0), interval)


@dataclass
class Order(Watcher):
    """The clocks of all classes in one execution, and the accesses that nothing orders."""

    interval: dict[Actor, int] = field(default_factory=dict)
    known: dict[Actor, Clock] = field(default_factory=dict)
    """of the lanes of a class, of each other as well: `known[a][a]` is what each lane knows that the others did"""
    given: dict[int, Clock] = field(default_factory=dict)
    taken: Clock = field(default_factory=dict)
    """what the generation that completed last was given"""
    exited: Clock = field(default_factory=dict)
    accesses: list[Access] = field(default_factory=list)
    faults: set[str] = field(default_factory=set)

    def _told(self, warp: int, classes: frozenset[int]) -> Clock:
        """All that lanes have done and know; their next interval begins."""
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

    def access(self, warp: int, own: int, step: Step) -> None:
        actor = warp, own
        known = self.known.setdefault(actor, {})
        for other in self.accesses:
            if known.get(other.actor, 0) < other.interval and _conflict(actor, step, other):
                self.faults.add(INTRA if other.actor[0] == warp else RACE)
        self.accesses.append(Access(actor, self.interval.setdefault(actor, 1), step))


def _conflict(actor: Actor, step: Step, other: Access) -> bool:
    """Whether two accesses, not ordered, of different lanes, touch one byte and one of them changes it.  Lanes of one
    store write the same here."""
    (warp, own), (other_warp, others) = actor, other.actor
    if step.number != other.step.number or (warp == other_warp and step.site == other.step.site):
        return False
    kinds = step.kind, other.step.kind
    if kinds == (READ, READ):
        return False
    if kinds == (ATOMIC, ATOMIC) and PLACES[step.detail].size == PLACES[other.step.detail].size:
        return False
    return meet(step.detail, own, other.step.detail, others, warp == other_warp)


# -- all together ------------------------------------------------------------------------------------------------------


def resolved(program: Lanes) -> Iterator[Lanes]:
    """The program without its chances, each decided in each way."""
    number = sum(map(_chances, program))
    for answers in product((True, False), repeat=number):
        rest = list(answers)
        yield tuple(_decided(block, rest) for block in program)


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
                answer = answers.pop()
                then, other = _decided(then, answers), _decided(other, answers)
                made += [act, *(then if answer else other)]
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

    @property
    def faults(self) -> frozenset[str]:
        return frozenset().union(*(one.faults for one in self.each))

    @property
    def verdicts(self) -> set[str]:
        """Those that are right."""
        faulty = [bool(one.faults) for one in self.each]
        if APART in self.open:
            return {"failed", "incomplete"}
        if CHANCE not in self.open:
            return {"failed"} if faulty[0] else {"verified"}
        return {"failed"} if all(faulty) else {"failed", "incomplete"} if any(faulty) else {"incomplete"}

    def always_ends_in(self, fault: str) -> bool:
        return all(one.always_ends_in(fault) for one in self.each)


def lane_outlook(program: Lanes) -> LaneOutlook:
    """All that can happen."""
    each = []
    left: set[str] = set()
    for one in resolved(program):
        ways, order = Interleavings(one), Order()
        ways.explore()
        ways.execute(order)
        left |= ways.faults & {APART}
        each.append(Outlook(frozenset(ways.faults - {APART} | order.faults), ways.completes))
    return LaneOutlook(tuple(each), frozenset(left | ({CHANCE} if len(each) > 1 else set())))
