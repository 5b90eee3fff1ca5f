"""Determine how many bytes, or arrivals, may be pending on an mbarrier at once in some schedule.

A phase has the same operations in every schedule; only their order is open.  At any moment, a set of them is complete
that contains, with each operation, all operations before it.  The maximum that can be pending is the greatest sum over
such sets of expected minus completed amounts.  This is a closure of maximum weight, found as a flow from expectations
to the completions that must precede them (Picard, "Maximal Closure of a Graph and Applications to Combinatorial
Problems", 1976).

The order is that of whole warps, and every operation counts as a release, which is more order than the launch has.  So
every reported maximum can occur, but a larger one may exist.
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
"""`what` of the findings that this module decides: see the checker `mbarrier`"""
MOST_OPERATIONS = 600
"""maximum number of analyzed operations of a phase"""


class _Operation(NamedTuple):
    """One operation of a phase: its change of the pending amount, and the operations that precede it."""

    adds: int
    after: frozenset[int]


class _Order(PhaseOrder):
    """An order in time, in which every operation on an mbarrier releases and every wait acquires."""

    def __init__(self, program: Program, cluster_of: Callable[[int], int]) -> None:
        super().__init__(True, uncounted_barriers(program), (), cluster_of)
        self._rules |= {"expect": self.arrive_on, "credit": self.arrive_on}


def too_much(trace: Trace, raw: RawFinding, program: Program, cluster_of: Callable[[int], int]) -> bool | None:
    """Return whether in some schedule more is pending in a phase than an mbarrier can hold.  None: this is not
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
    """Return the number of arrivals with which the phase began, without those that were added since."""
    if raw.detail["what"] == BYTES:
        return 0
    return raw.detail["value"] - sum(operation.adds for operation in operations if operation.adds > 0)


def _phases(
    trace: Trace, raw: RawFinding, program: Program, cluster_of: Callable[[int], int]
) -> dict[tuple[int, int], list[_Operation]]:
    """Return the operations of each (lifetime, phase) of the mbarrier of a finding."""
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
    """Yield (change of the pending amount, whether the operation is complete before its thread's next operation)."""
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
        """for each completed amount, the matched part of each expectation"""

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
    """Return the path from the start to an operation."""
    path = []
    while at >= 0:
        path.append(at)
        at = came[at]
    return path[::-1]
