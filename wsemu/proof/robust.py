"""Whether the interleavings of strong accesses are all that a program can show.

The PTX model allows more: two threads that each store and then load what the other stores may both miss it.  By Shasha
and Snir ("Efficient and Correct Execution of Parallel Programs that Share Memory", TOPLAS 1988) an execution that is no
interleaving has a *critical cycle*: accesses of several threads, of each of them two in program order, on two places,
or one; those of one thread conflict with those of the next.  Of the cycles that some interleaving shows, these cannot
come about otherwise:

- where a `fence.sc` stands between the two accesses of every thread;
- where at most one step from a thread to the next is from a read to a write that it misses, or from a write to a later
  one, and all others are from a write to what reads it, with release and acquire: then it contradicts causality.

A fence counts in cycles whose threads are all in its scope: one of a CTA in those among threads of that CTA.

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
NOWHERE, IN_CTA, IN_CLUSTER, EVERYWHERE = range(4)
"""how far a fence reaches"""
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
    fence: int = NOWHERE
    """how far the widest fence goes"""
    sequential: int = NOWHERE
    """the same of `fence.sc`"""


class Pair(NamedTuple):
    """Two accesses, one before the other."""

    first: Strong
    second: Strong
    takes: int
    """how far: a fence stands between, or the first one acquires"""
    gives: int
    """how far: a fence stands between, or the second one releases"""
    sequential: int
    """how far: a `fence.sc` stands between"""


class _Link(NamedTuple):
    """Two conflicting accesses of different threads, in one direction."""

    to: Strong
    observes: bool
    """the second reads what the first wrote"""


def _in_one_grid(threads: frozenset[int]) -> int:
    return EVERYWHERE


def weak(
    pairs: Collection[Pair], accesses: Collection[Strong], spread: Callable[[frozenset[int]], int] = _in_one_grid
) -> Pair | bool | None:
    """A pair of accesses in a cycle that is no interleaving; None: there is none; True: too many to be told.  `spread`:
    how far what orders some threads has to reach."""
    return _Search(pairs, accesses, spread).run()


class _Search:
    def __init__(
        self, pairs: Collection[Pair], accesses: Collection[Strong], spread: Callable[[frozenset[int]], int]
    ) -> None:
        self.spread = spread
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
            if start.sequential < EVERYWHERE:
                found = self._from(start)
                if found is not None:
                    return found
        return None

    def _from(self, start: Pair) -> Pair | bool | None:
        """A cycle through a pair, depth first; a way is where it stands, the threads that it has met, how many steps do
        not observe, how far those that observe synchronise and all `fence.sc` reach, and how it came to the pair that
        is last."""
        for first in (False, True):  # how the cycle comes back to the start: by observing or not
            both = frozenset({start.first.thread, start.second.thread})
            todo = [(start, both, 0, EVERYWHERE, start.sequential, first)]
            while todo:
                pair, met, apart, held, fenced, entered = todo.pop()
                for link in self._links(pair.second):
                    self.steps += 1
                    if self.steps > MOST_STEPS:
                        return True
                    more = apart + (not link.observes)
                    reach = min(held, _carries(pair, entered, link.observes))
                    if link.to == start.first and link.observes == first:
                        wide = self.spread(met)
                        if fenced < wide and (more > 1 or reach < wide):
                            return start
                        continue
                    if link.to.thread in met:
                        continue
                    there, last = met | {link.to.thread}, link.observes
                    todo += [
                        (after, there | {after.second.thread}, more, reach, min(fenced, after.sequential), last)
                        for after in self.after.get(link.to, ())
                        if after.second.thread == link.to.thread or after.second.thread not in met
                    ]
                    alone = Pair(link.to, link.to, EVERYWHERE, EVERYWHERE, EVERYWHERE)
                    todo.append((alone, there, more, reach, fenced, last))
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


def _carries(pair: Pair, observed: bool, observes: bool) -> int:
    """How far a pair carries on the order that it is entered with."""
    return min(pair.takes if observed else EVERYWHERE, pair.gives if observes else EVERYWHERE)
