"""Prove launches in which atomics on counters allocate slots: in every order of the adds, no two threads get the same
slot.

The result of one `add` depends on the order of the adds. But each add gets a range of numbers for itself, as long as
its operand, and together the ranges cover the numbers from the initial to the final value of the counter. Suppose that
a result is used only in the address of stores, `base + factor * result + rest`, and that `rest` keeps the store within
the range of its add. Then stores of different threads never overlap, in any order, and together they always cover the
same bytes. The order decides only which thread gets which slot.

The conditions are:

* A result influences control flow and addresses only through such an address, or through a comparison with a number
  that has the same outcome for all results (`linear.py`).
* All accesses to the counters are adds of nonnegative numbers.  No other access touches the stored bytes.
* In this run, `rest` keeps every store within the range of its add.  `rest` is the same in all orders, because nothing
  else in a thread depends on the results.

Detects: stores to slots that an atomic allocated, as in counting sort, compaction and filling a queue. Does not detect:
slots that are read again before the launch ends, rings (`slot % n`), slots that are allocated again after the counter
is reset, slots whose address combines the results of two counters.
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
    """The conditions that a run must satisfy."""

    stores: dict[int, Grown]
    """instruction of a store -> the formula of its address"""
    compared: list[Compared]
    counters: frozenset[int]
    """instructions of the adds that allocate slots"""

    @property
    def near(self) -> bool:
        """Return whether each store uses the latest result of its own lane's add."""
        return not any(grown.far for grown in self.stores.values())


class Stretch(NamedTuple):
    """The range of numbers that one add allocated."""

    counter: Place
    first: int
    length: int


class Put(NamedTuple):
    """A store of one lane to an allocated slot."""

    pc: int
    own: int
    """CTA if the slot is in shared memory, otherwise -1"""
    address: int
    stretch: Stretch


def plan(program: Program, analysis: Analysis, known: Mapping[int, int]) -> Plan | None:
    """Return the conditions that a run must satisfy; None if results of atomics are used in any other form."""
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
    """The values of a run's counters, updated add by add."""

    def __init__(self, held: Callable[[Place, int], int | None]) -> None:
        """Begin without adds; `held` returns the initial value of a location, or None if it is unknown."""
        self.held = held
        self.base: dict[Place, int] = {}
        self.now: dict[Place, int] = {}
        self.known: dict[Place, bool] = {}
        self.least: dict[Place, int] = {}
        self.grow = True
        """true if no add was negative: a counter that decreases could allocate one number twice in another order"""

    def take(self, place: Place, size: int, count: int) -> Stretch:
        """Record an add of `count` to a counter of `size` bytes, and return the range that it allocates."""
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
        """Return whether a comparison has the same outcome in every order."""
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
    """Return the outcome of a comparison for each of the given results, at the lower bound of the formula's rest."""
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
    """Map each start of a slot to the start that represents it: overlapping slots share one."""
    first, made = starts[0], dict[int, int]()
    for start in starts:
        if start >= first + length:
            first = start
        made[start] = first
    return made


class Range(NamedTuple):
    """The bytes that the slots of one counter cover."""

    own: int
    start: int
    end: int


def ranges(found: Plan, puts: Iterable[Put], counts: Counts, sizes: Mapping[int, int]) -> list[Range] | None:
    """Return the bytes that the stores cover in every order.

    Return None if a store leaves its range, or if ranges of several counters overlap. `sizes` maps a store to its
    bytes.
    """
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
    """Return whether a run proves that no order of the adds makes stores overlap, if each lane uses its own result.

    The trace has all accesses. `inside` returns whether bytes belong to one array, and `operands` maps an add to its
    amount.
    """
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
    """Return whether all stores stay in their slots, and no other access touches the slots or the counters."""
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
    """Return the instructions that access memory."""
    kinds = ("load", "store", "atomic")
    return frozenset(pc for pc, op in enumerate(program.code[:, 0].tolist()) if OPERATIONS[NAMES[op]].kind in kinds)
