"""Bytes, or arrivals, that may be outstanding at an mbarrier at once, in some schedule.

A phase has the same operations in every schedule; only their order is open.  At any moment some of them are done: with
each of them those that come before it.  The maximum that can be outstanding is the greatest sum over such sets of
expected minus completed amounts.  This is a closure of maximum weight, found as a flow from expectations to the
completions that must precede them (Picard, "Maximal Closure of a Graph and Applications to Combinatorial Problems",
1976).

The order is that of whole warps, and everything counts as giving: more order than there is.  So what is found can
happen, and of what is not found nothing is said.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from wsemu.model.data import NamedTuple
from wsemu.model.isa import MOST_COUNT, NAMES
from wsemu.proof.happens_before import uncounted_barriers
from wsemu.proof.phase_edges import PhaseOrder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wsemu.model.outcome import Event, RawFinding, Trace
    from wsemu.model.program import Program
    from wsemu.proof.happens_before import Actor, Epoch

BYTES, ARRIVALS = 5, 6
"""`what` of the findings that ask: see the checker `mbarrier`"""
MOST_OPERATIONS = 600
"""maximum operations of a phase that are analyzed"""


class _Operation(NamedTuple):
    """One of a phase: what it adds to what is outstanding, and which ones come before it."""

    adds: int
    after: frozenset[int]


class _Order(PhaseOrder):
    """Everything that names an mbarrier gives, and every wait takes: what comes before in time."""

    def __init__(self, program: Program, cluster_of: Callable[[int], int]) -> None:
        super().__init__(True, uncounted_barriers(program), (), cluster_of)
        self._rules |= {"expect": self.arrive_on, "credit": self.arrive_on}


def too_much(trace: Trace, raw: RawFinding, program: Program, cluster_of: Callable[[int], int]) -> bool | None:
    """Return whether in some schedule more is outstanding in a phase than an mbarrier holds; None: that is not
    decided."""
    if not trace.complete:
        return None
    for operations in _phases(trace, raw, program, cluster_of).values():
        if len(operations) > MOST_OPERATIONS:
            return None
        start = _count(operations, raw)
        most = [start + _most(operations, 1)] + [_most(operations, -1)] * (raw.detail["what"] == BYTES)
        if max(most) > MOST_COUNT:
            return True
    return None


def _count(operations: list[_Operation], raw: RawFinding) -> int:
    """Arrivals that the phase begins with: the finding has them with those that were added until then."""
    if raw.detail["what"] == BYTES:
        return 0
    return raw.detail["value"] - sum(operation.adds for operation in operations if operation.adds > 0)


def _phases(
    trace: Trace, raw: RawFinding, program: Program, cluster_of: Callable[[int], int]
) -> dict[tuple[int, int], list[_Operation]]:
    """(life, phase) of the mbarrier of a finding -> its operations."""
    order = _Order(program, cluster_of)
    found: defaultdict[tuple[int, int], list[_Operation]] = defaultdict(list)
    done: defaultdict[tuple[int, int], list[tuple[int, Actor, Epoch]]] = defaultdict(list)
    life = 0
    here = cluster_of(raw.cta), raw.detail["address"]
    for event in trace.events:
        if (cluster_of(event.cta), event.place) == here:
            life += event.kind == "init"
            key = life, event.generation
            for adds, stays in _amounts(event, program, raw.detail["what"]):
                actor = event.cta, event.warp
                after = frozenset(n for n, who, epoch in done[key] if who == actor or order.before(epoch, actor))
                if stays:
                    done[key].append((len(found[key]), actor, (*actor, event.interval)))
                found[key].append(_Operation(adds, after))
        order.apply(event)
    return found


def _amounts(event: Event, program: Program, what: int) -> Iterator[tuple[int, bool]]:
    """(what an operation adds, whether it is over before what its thread does next)."""
    name = NAMES[int(program.code[event.pc, 0])]
    by_thread = name.startswith("mbarrier.")
    if name == "cp.async.arrive" and event.kind == "arrive_on" and not event.amount:
        yield event.lanes.bit_count(), True
        yield -event.lanes.bit_count(), False
    elif what == BYTES and event.kind in ("expect", "credit"):
        yield (event.amount if event.kind == "expect" else -event.amount), by_thread
    elif what == ARRIVALS and event.kind == "arrive_on":
        yield -event.amount, by_thread


def _most(operations: list[_Operation], sign: int) -> int:
    """Return the greatest sum over sets that contain, with each operation, all operations before it; with sign -1, the
    greatest deficit."""
    flow = _Flow([sign * operation.adds for operation in operations], [operation.after for operation in operations])
    return flow.left_over()


class _Flow:
    """The flow from expectations to the transfers that certainly precede and match them."""

    def __init__(self, adds: list[int], after: list[frozenset[int]]) -> None:
        self._adds = adds
        self._before = [[n for n in some if adds[n] < 0] for some in after]
        self._left = [abs(add) for add in adds]
        self._matched: list[defaultdict[int, int]] = [defaultdict(int) for _ in adds]
        """for each completed amount: matched expectation -> how much"""

    def left_over(self) -> int:
        """Return the amount that nothing matches."""
        for n, add in enumerate(self._adds):
            while add > 0 and self._left[n] and (path := self._path(n)):
                self._push(path)
        return sum(self._left[n] for n, add in enumerate(self._adds) if add > 0)

    def _path(self, start: int) -> list[int]:
        """Return an augmenting path from an expected amount to an operation with an unmatched amount; empty if there is
        none."""
        came = {start: -1}
        todo = [start]
        for at in todo:
            wants = self._adds[at] > 0
            for other in self._before[at] if wants else [n for n, amount in self._matched[at].items() if amount]:
                if other not in came:
                    came[other] = at
                    if wants and self._left[other]:
                        return _back(other, came)
                    todo.append(other)
        return []

    def _push(self, path: list[int]) -> None:
        given, taken = [*zip(path[::2], path[1::2], strict=True)], [*zip(path[1::2], path[2::2], strict=False)]
        amount = min(self._left[path[0]], self._left[path[-1]], *(self._matched[c][p] for c, p in taken))
        for wants, came in given:
            self._matched[came][wants] += amount
        for came, wants in taken:
            self._matched[came][wants] -= amount
        self._left[path[0]] -= amount
        self._left[path[-1]] -= amount


def _back(at: int, came: dict[int, int]) -> list[int]:
    """The way to a place, from its start."""
    path = []
    while at >= 0:
        path.append(at)
        at = came[at]
    return path[::-1]
