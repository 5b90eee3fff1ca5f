"""Counters that allocate slots: in whatever order threads arrive, no two get the same.

The result of one `add` depends on the order, but the results of all adds to one counter together do not.  Each gets its
own range, as long as its operand, and the ranges are contiguous from the initial to the final value of the counter.
Suppose that a result is used only for the address of stores, `base + factor * result + rest`, and the rest stays inside
of the range.  Then stores of different threads never overlap, in any order, and all are between the same ends.  The
order decides which thread gets which slot; all else is independent of it.

The conditions are:

* Every use of a result with influence on control flow or addresses is such an address, or compares with a number that
  all results are on one side of (`linear.py`).
* Other accesses to the counters are only adds of nonnegative numbers.  No other access touches the bytes that are
  stored to.
* By the addresses of this run, without the results, every store keeps inside of its own range.  The remainder is equal
  in all orders, because nothing else that a thread does depends on them.

Detects: stores to slots that an atomic allocated, as in counting sort, compaction and queues that are filled.
Does not detect: slots that are read again before the launch ends, rings (`slot % n`), slots that are allocated again
after a counter's reset, slots that two counters determine together.
"""

from __future__ import annotations

import bisect
import itertools
import operator
from typing import TYPE_CHECKING, Any

from wsemu.model.control_flow import STEERS
from wsemu.model.data import NamedTuple
from wsemu.model.isa import ADDRESS_WRAPPED, ATOMICS, NAMES, OPERATIONS, SEGMENT_SHIFT, SHARED, access_shape
from wsemu.proof.linear import Compared, Grown, Linear

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    import numpy as np
    import numpy.typing as npt

    from wsemu.model.outcome import Trace
    from wsemu.model.program import Program
    from wsemu.proof.taint import Analysis

Place = tuple[int, int]
"""(CTA of shared memory or -1, address)"""
Thread = tuple[int, int, int]
"""CTA, warp, lane"""


class Plan(NamedTuple):
    """The facts that a run has to satisfy."""

    stores: dict[int, Grown]
    """pc -> what its address holds"""
    compared: list[Compared]
    counters: frozenset[int]
    """pcs of the adds that give out places"""

    @property
    def near(self) -> bool:
        """Return whether each lane uses the last result of its own add."""
        return not any(grown.far for grown in self.stores.values())


class Stretch(NamedTuple):
    """The slots that one add was given."""

    counter: Place
    first: int
    length: int


class Put(NamedTuple):
    """A store of a lane."""

    pc: int
    own: int
    """CTA of shared memory or -1"""
    address: int
    stretch: Stretch


def plan(program: Program, analysis: Analysis, known: Mapping[int, int]) -> Plan | None:
    """Return the facts to check in a run; None if results of atomics are used for something else."""
    wanted: dict[int, set[str]] = {}
    for t in analysis.find_tainted:
        wanted.setdefault(t.pc, set()).add(t.what)
    linear = Linear(program, analysis, known)
    made = Plan({}, [], frozenset(pc for group in analysis.meeting() for pc in group))
    for step, rows, _ in linear.states():
        for what in wanted.get(step.pc, ()):
            if what == "address" and step.address >= 0:
                held = linear.address(step, rows)
                if step.kind != "store" or not isinstance(held, Grown):
                    return None
                if held.factor < access_shape(NAMES[int(program.code[step.pc, 0])])[1]:
                    return None
                made.stores[step.pc] = held
            elif (what in STEERS.values() or what.startswith("guard of")) and step.guard:
                held = rows.get(step.guard)
                if not isinstance(held, Compared):
                    return None
                made.compared.append(held)
            elif step.address >= 0 or step.guard:
                return None
    uses = {grown.atomic for grown in made.stores.values()} | {one.grown.atomic for one in made.compared}
    groups = [group for group in analysis.meeting() if group & uses]
    counters = frozenset[int]().union(*groups)
    fits = all(_adds(program, pc) and pc not in analysis._reasons for pc in counters)
    return made._replace(counters=counters) if made.stores and uses <= counters and fits else None


def _adds(program: Program, pc: int) -> bool:
    what, type_ = ATOMICS.get(NAMES[int(program.code[pc, 0])], ("", ""))
    return what == "add" and type_[0] == "b"


class Counts:
    """The counters of a run, as adds come one after the other."""

    def __init__(self, held: Callable[[Place, int], int | None]) -> None:
        """`held` says what stood at a place before the launch, None where that is not known."""
        self.held = held
        self.base: dict[Place, int] = {}
        self.now: dict[Place, int] = {}
        self.known: dict[Place, bool] = {}
        self.least: dict[Place, int] = {}
        self.grow = True
        """true if nothing was subtracted from a counter: subtracted numbers would be allocated again in another
        order"""

    def take(self, place: Place, size: int, count: int) -> Stretch:
        """An add of `count`, in `size` bytes."""
        self.grow &= not count >> 8 * size - 1 & 1
        if place not in self.now:
            found = self.held(place, size)
            self.known[place] = found is not None
            self.base[place] = self.now[place] = found or 0
        first = self.now[place]
        self.now[place] += count
        self.least[place] = min(count, self.least.get(place, count))
        return Stretch(place, first, count)

    def decides(self, one: Compared) -> bool:
        """Return whether a comparison comes out one way whatever the order."""
        grown = one.grown
        if grown.low is None or grown.high is None or not all(self.known.values()) or not self.now:
            return False
        low = grown.factor * min(self.base.values()) + grown.low
        high = grown.factor * max(self.now[p] - self.least[p] for p in self.now) + grown.high
        if low < 0 or high >= 1 << 31:
            return False
        ends = {_holds(one.relation, value, one.number) for value in (low, high)}
        if one.relation in ("eq", "ne"):
            return not low <= one.number <= high
        return len(ends) == 1


def compares(one: Compared, results: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Return the outcome of a comparison for each of these results, the rest being its lower bound."""
    values = one.grown.factor * results + (one.grown.low or 0)
    relations: dict[str, Callable[[Any, int], Any]] = {
        "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge, "eq": operator.eq,
        "ne": operator.ne,
    }  # fmt: skip
    found: npt.NDArray[np.bool_] = relations[one.relation](values, one.number)
    return found


def _holds(relation: str, value: int, number: int) -> bool:
    return {"lt": value < number, "le": value <= number, "gt": value > number, "ge": value >= number}.get(
        relation, False
    )


def _firsts(starts: list[int], length: int) -> dict[int, int]:
    """Return, for each start of a slot, the start that represents it: overlapping slots share one."""
    first, made = starts[0], dict[int, int]()
    for start in starts:
        if start >= first + length:
            first = start
        made[start] = first
    return made


class Range(NamedTuple):
    """Bytes that one counter's places take."""

    own: int
    start: int
    end: int


def ranges(found: Plan, puts: Iterable[Put], counts: Counts, sizes: Mapping[int, int]) -> list[Range] | None:
    """The bytes that stores go to, in any order; None where some store leaves its stretch, or stretches of several
    counters meet.  `sizes` are those of stores."""
    kept = [(put, found.stores[put.pc].factor) for put in puts]
    starts: dict[tuple[int, int, Place], set[int]] = {}
    for put, factor in kept:
        key = put.own, factor, put.stretch.counter
        starts.setdefault(key, set()).add(put.address - factor * put.stretch.first)
    first = {key: _firsts(sorted(there), key[1] * (counts.now[key[2]] - counts.base[key[2]]))
             for key, there in starts.items()}  # fmt: skip
    for put, factor in kept:
        start = put.address - factor * put.stretch.first
        start -= first[put.own, factor, put.stretch.counter][start]
        if start + sizes[put.pc] > factor * put.stretch.length:
            return None
    made = sorted(
        Range(own, start + factor * counts.base[counter], start + factor * counts.now[counter])
        for (own, factor, counter), there in first.items()
        for start in set(there.values())
    )
    return None if any(a.own == b.own and a.end > b.start for a, b in itertools.pairwise(made)) else made


def proves_slots(
    program: Program,
    found: Plan,
    trace: Trace,
    held: Callable[[Place, int], int | None],
    inside: Callable[[Range], bool],
    operands: Mapping[int, int],
) -> bool:
    """Return whether a run shows that places are given out rightly in every order, where each lane uses what it was
    given itself. The trace has all accesses; `inside` says whether bytes belong to one array, `operands` what adds
    add."""
    code = program.code
    sizes = {pc: access_shape(NAMES[int(code[pc, 0])])[1] for pc in (*found.stores, *found.counters)}
    counts, last = Counts(held), dict[tuple[Thread, int], Stretch]()
    puts, others = list[Put](), list[tuple[int, int, int]]()
    for event in trace.events:
        if event.kind != "access":
            continue
        atomic, store = event.pc in found.counters, found.stores.get(event.pc)
        size = access_shape(NAMES[int(code[event.pc, 0])])[1]
        for lane, address in trace.lane_addresses(event).items():
            address &= ~ADDRESS_WRAPPED
            own = event.cta if address >> SEGMENT_SHIFT == SHARED else -1
            thread = event.cta, event.warp, lane
            if atomic:
                if event.pc not in operands:
                    return False
                last[thread, event.pc] = counts.take((own, address), size, operands[event.pc])
            elif store is not None:
                stretch = last.get((thread, store.atomic))
                if stretch is None:
                    return False
                puts.append(Put(event.pc, own, address, stretch))
            else:
                others.append((own, address, address + size))
    return trace.complete and holds(found, puts, counts, sizes, others, inside)


def holds(
    found: Plan,
    puts: list[Put],
    counts: Counts,
    sizes: Mapping[int, int],
    others: Iterable[tuple[int, int, int]],
    inside: Callable[[Range], bool],
) -> bool:
    """Return whether all stores keep to their places, and nothing else comes there or to the counters."""
    made = ranges(found, puts, counts, sizes) if counts.grow else None
    if not made or not all(map(inside, made)) or not all(map(counts.decides, found.compared)):
        return False
    width = max(sizes[pc] for pc in found.counters)
    taken = sorted([*made, *(Range(own, at, at + width) for own, at in counts.now)])
    if any(a.own == b.own and a.end > b.start for a, b in itertools.pairwise(taken)):
        return False
    return not any(_meets(taken, *other) for other in others)


def _meets(taken: list[Range], own: int, start: int, end: int) -> bool:
    at = bisect.bisect_left(taken, Range(own, end, -1))
    return at > 0 and taken[at - 1].own == own and taken[at - 1].end > start


def accesses(program: Program) -> frozenset[int]:
    """The instructions that touch memory."""
    kinds = ("load", "store", "atomic")
    return frozenset(pc for pc, op in enumerate(program.code[:, 0].tolist()) if OPERATIONS[NAMES[op]].kind in kinds)
