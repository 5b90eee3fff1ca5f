"""Whether the interleavings of strong accesses are all that a program can show.

The PTX model allows more: two threads that each store and then load what the other stores may both miss it.  By Shasha
and Snir ("Efficient and Correct Execution of Parallel Programs that Share Memory", TOPLAS 1988) an execution that is no
interleaving has a *critical cycle*: accesses of several threads, of each of them two in program order, on two places,
or one; those of one thread conflict with those of the next.  Of the cycles that some interleaving shows, these cannot
come about otherwise:

- where a `fence.sc` stands between the two accesses of every thread;
- where at most one step from a thread to the next is from a read to a write that it misses, or from a write to a later
  one, and all others are from a write to what reads it, with release and acquire: then it contradicts causality.

What remains is `weak`: a pair of accesses of one thread in such a cycle.
Reference: PTX ISA, "Memory Consistency Model", causality order; Alglave, Maranget, Tautschnig, "Herding Cats", TOPLAS
2014, on cycles by their shapes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.model.data import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

Place = tuple[int, int]
MOST_STEPS = 100_000
"""that are looked at for a cycle"""


class Strong(NamedTuple):
    """A strong access of a thread."""

    thread: int
    place: Place
    reads: bool
    writes: bool
    pc: int


class Before(NamedTuple):
    """An access that comes before now in program order, or by barriers, and what has stood between."""

    access: Strong
    acquired: bool = False
    """it acquires by itself"""
    fence: bool = False
    sequential: bool = False


class Pair(NamedTuple):
    """Two accesses, one before the other."""

    first: Strong
    second: Strong
    takes: bool
    """a fence stands between, or the first one acquires"""
    gives: bool
    """a fence stands between, or the second one releases"""
    sequential: bool


class _Link(NamedTuple):
    """Two conflicting accesses of different threads, in one direction."""

    to: Strong
    observes: bool
    """the second reads what the first wrote"""


class _Way(NamedTuple):
    """What is left to close to a cycle."""

    pair: Pair
    """the last one"""
    met: frozenset[int]
    """threads"""
    places: frozenset[Place]
    apart: int
    """steps that do not observe"""
    unsynchronised: bool
    """whether a step that observes does not synchronise"""
    entered: bool
    """whether the last pair was come to by observing"""


def weak(
    pairs: Collection[Pair], accesses: Collection[Strong], meet: Callable[[Strong, Strong], bool] = lambda a, b: True
) -> Pair | bool | None:
    """A pair of accesses in a cycle that is no interleaving; None: there is none; True: too many to be told.

    `meet` says of two accesses to one place whether some interleaving has one after the other and nothing else that
    orders them.  Others are seen in no other order, as plain accesses without a race; and what orders them is itself
    made of steps that observe."""
    return _Search(pairs, accesses, meet).run()


class _Search:
    def __init__(
        self, pairs: Collection[Pair], accesses: Collection[Strong], meet: Callable[[Strong, Strong], bool]
    ) -> None:
        self.meet = meet
        self.pairs = _in_circles([pair for pair in pairs if pair.first.place != pair.second.place])
        self.at: dict[Place, list[Strong]] = {}
        for access in sorted(accesses):
            self.at.setdefault(access.place, []).append(access)
        self.stored = {a.place for a in accesses if a.writes and not a.reads}
        """places with writes that are no atomics: these end what is observed through atomics"""
        self.after: dict[Strong, list[Pair]] = {}
        for pair in sorted(set(self.pairs)):
            self.after.setdefault(pair.first, []).append(pair)
        self.steps = 0

    def run(self) -> Pair | bool | None:
        for start in sorted(set(self.pairs)):
            if not start.sequential:
                found = self._from(start)
                if found is not None:
                    return found
        return None

    def _from(self, start: Pair) -> Pair | bool | None:
        """A cycle through a pair, depth first.  It need not come to a place twice, with up to three accesses there."""
        home = start.first.place
        for first in (False, True):  # how the cycle comes back to the start: by observing or not
            todo = [
                _Way(start, frozenset({start.first.thread, start.second.thread}), frozenset({start.second.place}), 0,
                     unsynchronised=False, entered=first)
            ]  # fmt: skip
            while todo:
                way = todo.pop()
                for link in self._links(way.pair.second):
                    self.steps += 1
                    if self.steps > MOST_STEPS:
                        return True
                    more = way.apart + (not link.observes)
                    loose = way.unsynchronised or _loose(way.pair, way.entered, link.observes)
                    if link.to == start.first and link.observes == first:
                        if more > 1 or loose:
                            return start
                        continue
                    if link.to.thread in way.met:
                        continue
                    met = way.met | {link.to.thread}
                    for after in self.after.get(link.to, ()) if way.pair.second.place != home else ():
                        place, thread = after.second.place, after.second.thread
                        if place not in way.places and (thread == link.to.thread or thread not in way.met):
                            there = met | {thread}
                            todo.append(_Way(after, there, way.places | {place}, more, loose, link.observes))
                    if way.pair.first != way.pair.second:
                        alone = Pair(link.to, link.to, takes=True, gives=True, sequential=True)
                        todo.append(_Way(alone, met, way.places, more, loose, link.observes))
        return None

    def _links(self, access: Strong) -> Iterator[_Link]:
        """To which accesses of other threads a cycle may go on."""
        for other in self.at[access.place]:
            if other.thread == access.thread or not (access.writes or other.writes) or not self.meet(access, other):
                continue
            both = access.reads and access.writes and other.reads and other.writes
            chained = both and access.place not in self.stored
            if access.writes and other.reads:
                yield _Link(other, observes=True)
            if other.writes and not chained:
                yield _Link(other, observes=False)


def _in_circles(pairs: list[Pair]) -> list[Pair]:
    """The pairs that can belong to a cycle: from the place of the second one, other pairs lead to that of the first."""
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


def _loose(pair: Pair, observed: bool, observes: bool) -> bool:
    """Whether a pair does not carry on the order that it is entered with."""
    return (observed and not pair.takes) or (observes and not pair.gives)
