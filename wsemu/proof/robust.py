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
    from collections.abc import Collection, Iterator

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


def weak(pairs: Collection[Pair], accesses: Collection[Strong]) -> Pair | bool | None:
    """A pair of accesses in a cycle that is no interleaving; None: there is none; True: too many to be told."""
    return _Search(pairs, accesses).run()


class _Search:
    def __init__(self, pairs: Collection[Pair], accesses: Collection[Strong]) -> None:
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
        """A cycle through a pair, depth first; a way is where it stands, the threads that it has met, how many steps do
        not observe, whether some step that observes does not synchronise, and how it came to the pair that is last."""
        for first in (False, True):  # how the cycle comes back to the start: by observing or not
            todo = [(start, frozenset({start.first.thread, start.second.thread}), 0, False, first)]
            while todo:
                pair, met, apart, loose, entered = todo.pop()
                for link in self._links(pair.second):
                    self.steps += 1
                    if self.steps > MOST_STEPS:
                        return True
                    more = apart + (not link.observes)
                    unsynchronised = loose or _loose(pair, entered, link.observes)
                    if link.to == start.first and link.observes == first:
                        if more > 1 or unsynchronised:
                            return start
                        continue
                    if link.to.thread in met:
                        continue
                    there = met | {link.to.thread}
                    todo += [
                        (after, there | {after.second.thread}, more, unsynchronised, link.observes)
                        for after in self.after.get(link.to, ())
                        if after.second.thread == link.to.thread or after.second.thread not in met
                    ]
                    alone = Pair(link.to, link.to, takes=True, gives=True, sequential=True)
                    todo.append((alone, there, more, unsynchronised, link.observes))
        return None

    def _links(self, access: Strong) -> Iterator[_Link]:
        """To which accesses of other threads a cycle may go on."""
        for other in self.at[access.place]:
            if other.thread == access.thread or not (access.writes or other.writes):
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
