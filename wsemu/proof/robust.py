"""Test whether the interleavings of strong accesses are all executions that a program can have.

The PTX model allows more: two threads that each store to a location and then load the other thread's location may both
load the old values.  By Shasha and Snir ("Efficient and Correct Execution of Parallel Programs that Share Memory",
TOPLAS 1988) an execution that is not an interleaving has a *critical cycle*.  It passes through several threads.  In
each of them it has one access, or two in program order to different locations; the last access in a thread conflicts
with the first one in the next thread.  Two kinds of these cycles are impossible:

* Cycles in which every thread has a `fence.sc` between its two accesses.
* Cycles that contradict causality.  In these, all steps from a thread to the next, except at most one, are from a write
  to a read of its value, with release and acquire.  The exception is a step from a read to a write that it misses, or
  from a write to a later write.

A fence counts only in cycles whose threads are all in its scope: a fence of CTA scope in cycles within one CTA.

`weak` returns a pair of accesses of one thread in a possible cycle.
Reference: PTX ISA, "Memory Consistency Model", causality order; Alglave, Maranget, Tautschnig, "Herding Cats", TOPLAS
2014, on cycles by their shapes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.model.data import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

Place = tuple[int, int]
NOWHERE, IN_CTA, IN_CLUSTER, EVERYWHERE = range(4)
"""reach of a fence: nowhere, its CTA, its cluster, all threads"""
MOST_STEPS = 100_000
"""maximum number of steps in the search for a cycle"""


class Strong(NamedTuple):
    """A strong access of a thread."""

    thread: int
    place: Place
    reads: bool
    writes: bool
    pc: int
    number: int = 0
    """number of the thread's earlier strong accesses, or 0 if they are not counted"""


class Before(NamedTuple):
    """An earlier access, ordered by program order or barriers, and the fences since then."""

    access: Strong
    acquired: bool = False
    """true if the access itself acquires"""
    fence: int = NOWHERE
    """scope of the widest fence"""
    sequential: int = NOWHERE
    """scope of the widest `fence.sc`"""


class Pair(NamedTuple):
    """Two accesses of one thread, one before the other."""

    first: Strong
    second: Strong
    takes: int
    """scope of the acquire: of a fence in between, or of the first access"""
    gives: int
    """scope of the release: of a fence in between, or of the second access"""
    sequential: int
    """scope of a `fence.sc` between them"""
    whole: bool = False
    """true if both are elements of one access of a vector"""


def make_whole(first: Strong, second: Strong) -> Pair:
    """Return the pair of two elements of one access of a vector."""
    return Pair(first, second, EVERYWHERE, EVERYWHERE, EVERYWHERE, whole=True)


class _Link(NamedTuple):
    """Two conflicting accesses of different threads, in one direction."""

    to: Strong
    observes: bool
    """true if the second access reads the value that the first wrote"""


def _grid_component(threads: frozenset[int]) -> int:
    """Return the component of threads if fences reach the whole grid."""
    return EVERYWHERE


class _Way(NamedTuple):
    """The path of a cycle that is not closed yet."""

    pair: Pair
    """last pair of the path"""
    met: frozenset[int]
    """threads that the path has visited"""
    places: frozenset[Place]
    apart: int
    """number of steps that are not reads of a written value"""
    held: int
    """scope within which its reads synchronize with the writes"""
    fenced: int
    """scope that all its `fence.sc` have in common"""
    entered: bool
    """true if the last pair was reached by a read of a written value"""


def weak(
    pairs: Collection[Pair], accesses: Collection[Strong], spread: Callable[[frozenset[int]], int] = _grid_component,
    meet: Callable[[Strong, Strong], bool] = lambda one, other: True,
    misses: Callable[[Strong, Strong], bool] = lambda read, write: True,
) -> Pair | bool | None:  # fmt: skip
    """Return a pair of accesses in a critical cycle; None if no cycle exists, True if the search is too long.  `spread`
    returns the scope that a fence needs to order some threads.

    `meet` returns whether some interleaving has two accesses to one location next to each other with nothing else that
    orders them. Other pairs are always observed in one order, like plain accesses without a race, because the accesses
    that order them are reads of written values. `misses` returns whether a read may return a value from before a write.
    """
    return _Search(pairs, accesses, spread, meet, misses).run()


class Waits:
    """The reads of wait loops, and the writes whose values they return: while the wait continues, and in the last
    iteration.

    A wait counts as one access, which reads the value that ends it. The writes to a location with one writer have one
    order. Suppose that a wait continued with every value before one of these writes. Then neither the wait nor later
    reads of its thread miss that write. This holds only if the wait continued in each state of its CTA in which it
    can end, because the awaited value may depend on the state.
    """

    def __init__(self) -> None:
        self.failed: dict[Strong, dict[bytes, set[Strong | None]]] = {}
        """read -> state of the CTA -> the writes with whose values the wait continued; None: the value from before the
        launch"""
        self.ended: dict[Strong, dict[bytes, set[Strong | None]]] = {}

    def note(self, read: Strong, source: Strong | None, state: bytes, *, in_vain: bool) -> None:
        """Record a read in a state of its CTA, and the write whose value it returns."""
        (self.failed if in_vain else self.ended).setdefault(read, {}).setdefault(state, set()).add(source)

    def _find_vain(self, read: Strong) -> set[Strong | None]:
        """Return the writes with whose values a wait continues in each state."""
        failed, ended = self.failed.get(read, {}), self.ended.get(read, {})
        found = set[Strong | None]().union(*failed.values())
        for state, sources in ended.items():
            found = found & failed.get(state, set()) - sources
        return found

    def misses(self, accesses: Iterable[Strong]) -> Callable[[Strong, Strong], bool]:
        """Return a function that returns whether a read may end with a value from before a write."""
        at: dict[Place, list[Strong]] = {}
        for access in sorted(accesses, key=lambda one: one.number):
            at.setdefault(access.place, []).append(access)
        first_seen: dict[Strong, int] = {}
        position: dict[Strong, int] = {}
        for there in at.values():
            writes = [one for one in there if one.writes]
            if len({one.thread for one in writes}) != 1:
                continue
            position |= {one: n for n, one in enumerate(writes, 1)}
            sources = [None, *writes]
            lowest: dict[int, int] = {}
            for read in (one for one in there if one.reads):
                low = lowest.get(read.thread, 0)
                vain = self._find_vain(read)
                while low < len(writes) and sources[low] in vain:
                    low += 1
                first_seen[read] = lowest[read.thread] = low
        return lambda read, write: first_seen.get(read, 0) < position.get(write, 1)


class _Search:
    def __init__(
        self, pairs: Collection[Pair], accesses: Collection[Strong], spread: Callable[[frozenset[int]], int],
        meet: Callable[[Strong, Strong], bool], misses: Callable[[Strong, Strong], bool],
    ) -> None:  # fmt: skip
        self.meet, self.misses = meet, misses
        self.spread = spread
        self.pairs = _pairs_in_cycles([pair for pair in pairs if pair.first.place != pair.second.place])
        self.at: dict[Place, list[Strong]] = {}
        for access in sorted(accesses):
            self.at.setdefault(access.place, []).append(access)
        self.stored = {a.place for a in accesses if a.writes and not a.reads}
        """locations with plain writes, which break a chain of atomics"""
        self.after: dict[Strong, list[Pair]] = {}
        for pair in sorted(set(self.pairs)):
            self.after.setdefault(pair.first, []).append(pair)
        self.steps = 0

    def run(self) -> Pair | bool | None:
        for start in sorted(set(self.pairs)):
            if start.sequential < EVERYWHERE:
                found = self._from(start)
                if found is not None:
                    return found
        return None

    def _from(self, start: Pair) -> Pair | bool | None:
        """Return a cycle through a pair, by depth-first search.  A cycle needs each location only once, with up to
        three accesses to it."""
        home = start.first.place
        for first in (False, True):  # whether the last step of the cycle is a read of a written value
            both, places = frozenset({start.first.thread, start.second.thread}), frozenset({start.second.place})
            todo = [_Way(start, both, places, 0, EVERYWHERE, start.sequential, first)]
            while todo:
                way = todo.pop()
                for link in self._links(way.pair.second):
                    self.steps += 1
                    if self.steps > MOST_STEPS:
                        return True
                    more = way.apart + (not link.observes)
                    reach = min(way.held, _carries(way.pair, way.entered, link.observes))
                    if link.to == start.first and link.observes == first:
                        if way.pair.whole and len(way.met) == 2 and link.observes and not start.second.reads:
                            continue  # a store after a read of one element comes after all elements
                        wide = self.spread(way.met)
                        if way.fenced < wide and (more > 1 or reach < wide):
                            return start
                        continue
                    if link.to.thread not in way.met:
                        todo += self._on(way, link, more, reach, home)
        return None

    def _on(self, way: _Way, link: _Link, apart: int, held: int, home: Place) -> Iterator[_Way]:
        """Yield the continuations of a cycle after an access."""
        met = way.met | {link.to.thread}
        for after in self.after.get(link.to, ()) if way.pair.second.place != home else ():
            place, thread = after.second.place, after.second.thread
            if place not in way.places and (thread == link.to.thread or thread not in way.met):
                fenced = min(way.fenced, after.sequential)
                yield _Way(after, met | {thread}, way.places | {place}, apart, held, fenced, link.observes)
        if way.pair.first != way.pair.second:
            alone = Pair(link.to, link.to, EVERYWHERE, EVERYWHERE, EVERYWHERE)
            yield _Way(alone, met, way.places, apart, held, way.fenced, link.observes)

    def _links(self, access: Strong) -> Iterator[_Link]:
        """Yield the accesses of other threads with which a cycle may continue."""
        for other in self.at[access.place]:
            if other.thread == access.thread or not (access.writes or other.writes) or not self.meet(access, other):
                continue
            both = access.reads and access.writes and other.reads and other.writes
            chained = both and access.place not in self.stored
            if access.writes and other.reads:
                yield _Link(other, observes=True)
            if other.writes and not chained and (access.writes or self.misses(access, other)):
                yield _Link(other, observes=False)


def _pairs_in_cycles(pairs: list[Pair]) -> list[Pair]:
    """Return the pairs that can belong to a cycle: other pairs lead from the location of the second access to that of
    the first."""
    after: dict[Place, set[Place]] = {}
    for pair in pairs:
        after.setdefault(pair.first.place, set()).add(pair.second.place)
    reached: dict[Place, set[Place]] = {}
    for place in after:
        found, todo = set(after[place]), list(after[place])
        while todo:
            more = after.get(todo.pop(), set()) - found
            found |= more
            todo += more
        reached[place] = found
    return [pair for pair in pairs if pair.first.place in reached.get(pair.second.place, ())]


def _carries(pair: Pair, observed: bool, observes: bool) -> int:
    """Return the scope in which a pair extends the order of the step before it to the step after it."""
    return min(pair.takes if observed else EVERYWHERE, pair.gives if observes else EVERYWHERE)
