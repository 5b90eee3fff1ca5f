"""Sample interleavings of strong accesses at random if there are too many to explore.

Every other interleaving is drawn by PCT: each lane that performs strong accesses gets a priority, and the runnable lane
with the highest priority proceeds.  At DEPTH - 1 steps that are drawn in advance, the lane that has just run gets the
lowest priority.  A failure that requires an order of d accesses, with d up to DEPTH, is found with a probability of at
least 1 / (n k^(d - 1)) for n lanes and k accesses.  The bound is from Burckhardt, Kothari, Musuvathi, Nagarakatte, "A
Randomized Scheduler with Probabilistic Guarantees of Finding Bugs", ASPLOS 2010.

The other interleavings are drawn step by step; each runnable lane has the same probability.  The product of the numbers
of runnable lanes estimates the number of interleavings; the mean of this estimate is exact (Knuth, "Estimating the
Efficiency of Backtrack Programs", 1975).
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from wsemu.model.data import NamedTuple

if TYPE_CHECKING:
    from wsemu.launch.explore.nodes import Node
    from wsemu.launch.explore.search import Search
    from wsemu.launch.explore.session import Ask

DEPTH = 3
MOST_ORDERS, MOST_STEPS, LEAST_STEPS = 40, 1_500, 400
"""for one unit of effort: maximum number of sampled interleavings, maximum number of strong accesses of the search and
its samples together, and number of strong accesses that the samples may perform in any case"""
Lane = tuple[int, int, int]
"""CTA, warp, lane"""
_AGAIN = 2
"""number of visits of a state in one interleaving after which `Search.all_wait` tests whether all its lanes wait"""


class Sampled(NamedTuple):
    """The extent of the sampling."""

    orders: int
    """number of interleavings that ended"""
    drawn: int
    """number of these drawn by PCT"""
    estimate: float
    """estimated number of all interleavings, sampled or not"""
    lanes: int
    steps: int
    """steps of the longest interleaving"""

    @property
    def failure_bound(self) -> float:
        """Return the minimum probability with which an interleaving sampled by PCT finds a failure of depth DEPTH."""
        return 1 / (self.lanes * float(max(self.steps, 1)) ** (DEPTH - 1))


class Samples:
    """Samples interleavings of a launch.  A failure is stored in the result of its search."""

    def __init__(self, search: Search) -> None:
        self.search, self.dice = search, search.dice
        self.first = search.spent
        self.lanes: set[Lane] = set()
        self.longest = 8
        self.root: Node | None = None
        """state at the start, which no interleaving changes"""

    def run(self) -> Sampled:
        orders, drawn, total = 0, 0, 0.0
        self.root = self.search.root()
        for n in range(math.ceil(MOST_ORDERS * self.search.effort)):
            found = self._run_interleaving(by_priority=bool(n % 2))
            if found is None:
                break
            orders, drawn = orders + 1, drawn + n % 2
            total += found if not n % 2 else 0.0
        return Sampled(orders, drawn, total / max(orders - drawn, 1), len(self.lanes), self.longest)

    def _run_interleaving(self, *, by_priority: bool) -> float | None:
        """Run one interleaving.  Return the product of the numbers of runnable lanes in each step; None if the
        interleaving failed."""
        search = self.search
        ranks: dict[Lane, float] = {}
        changes = {self.dice.randrange(self.longest) for _ in range(DEPTH - 1)}
        node, product, length = self.root, 1.0, 0
        if node is None:
            return None
        been = Counter[tuple[bytes, ...]]()
        while search.result.is_decided:
            state = (*node.digests, node.digest)
            been[state] += 1
            if been[state] == _AGAIN and search.all_wait(node):  # a waiting loop returns to its state
                search.stand_still(node)
                return None
            asks = sorted(ask for own in node.asks for ask in own)
            if not asks:
                break
            after, able = self._move_randomly(node, asks, ranks if by_priority else None)
            if after is None:
                if not self._is_exhausted() and search.result.is_decided:
                    search.stand_still(node)
                return None
            product, length = product * able, length + 1
            if length in changes and after.ask is not None:
                ranks[after.ask[:3]] = -length
            node = after
        self.longest = max(self.longest, length)
        if not search.result.is_decided:
            return None
        if any(status != "done" for status in node.status):
            search.stand_still(node)
            return None
        return product

    def _move_randomly(self, node: Node, asks: list[Ask], ranks: dict[Lane, float] | None) -> tuple[Node | None, int]:
        """Return the node after a move of one of the lanes that can move, and their number."""
        self.lanes.update(ask[:3] for ask in asks)
        self.dice.shuffle(asks)
        if ranks is not None:
            for ask in asks:
                ranks.setdefault(ask[:3], 1 + self.dice.random())
            asks.sort(key=lambda ask: ranks[ask[:3]], reverse=True)
        able = len(asks)
        for ask in asks:
            if self._is_exhausted():
                return None, able
            after = self.search.step(node, ask)
            if after is not None or not self.search.result.is_decided:
                return after, able
            able -= 1
        return None, able

    def _is_exhausted(self) -> bool:
        effort = self.search.effort
        most = max(MOST_STEPS * effort - self.first, LEAST_STEPS * effort)
        return self.search.spent - self.first >= most
