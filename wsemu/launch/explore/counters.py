"""Counters in the method of flags (`flags.py`): words to which several threads add, and for which others wait until
they have reached a number.

An addition *surely* precedes the end of a wait if the other additions that may come before that end do not suffice.
The order of the execution decides which ones may come before; each wait acquires from such additions alone.  An
addition whose result is used is a *ticket*.  One run is judged for each ticket that may be the last; all other tickets
must lead to the same, whatever their results are.  docs/how.md, "Counters", has the theorem.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.launch.explore.ways import UnfitError
from wsemu.model.data import NamedTuple, dataclass, field
from wsemu.model.isa import AS_STORE, ATOMICS, NAMES, NO_STORE, SERVED, SIZE
from wsemu.proof.thread_keys import WIDE
from wsemu.proof.threads import Location

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from wsemu.proof.threads import Place, Rows

Name = tuple[int, int]
"""A thread, numbered for the whole launch, and how many additions and waits it has performed before."""
_COMMUTING = ("add", "and", "or", "xor", "min", "max")
MOST_SUMS = 4_096
"""maximum number of values that a wait is tried with"""


class Did(NamedTuple):
    """An addition, the end of a wait, or a last store, as an execution performed it."""

    name: Name
    place: Place
    mark: int
    """interval in which the thread performs it"""
    row: Rows
    """earlier clock of the thread"""
    amount: int = 0
    """the added number; 0 for a wait"""
    is_ticket: bool = False
    column: int = 0
    """column of the clock for this write, or 0"""
    written: int = 0
    """number of this write within its column"""


@dataclass(slots=True)
class Order:
    """The order of the additions and waits of an execution."""

    base: int
    """initial value of the counter"""
    amounts: dict[Name, int] = field(default_factory=dict)
    before: dict[Name, frozenset[Name]] = field(default_factory=dict)
    """addition, end of a wait, or a last store -> the additions that precede it"""
    after: dict[Name, frozenset[Name]] = field(default_factory=dict)
    """addition, end of a wait, or a last store -> the additions that follow it"""
    earlier: dict[Name, frozenset[Name]] = field(default_factory=dict)
    """last store -> the ends of waits that precede it"""

    def surely_precedes(self, addition: Name, wait: Name, target: int) -> bool:
        """Return whether a wait for a number ends only after an addition."""
        after = self.after[wait]
        without = sum(
            amount for other, amount in self.amounts.items()
            if other != addition and other not in after and addition not in self.before[other]
        )  # fmt: skip
        return self.base + without < target

    def list_values(self, name: Name, *, without: Name | None = None) -> list[int]:
        """Return the values that the counter may have when a wait ends, or when a ticket is drawn; `without` is the
        last ticket, which comes later."""
        sure, after = self.before[name], self.after[name]
        low = self.base + sum(self.amounts[other] for other in sure)
        loose = [
            amount for other, amount in self.amounts.items()
            if other not in sure and other not in after and other not in (name, without)
        ]  # fmt: skip
        sums = {low}
        for amount in loose:
            sums |= {one + amount for one in sums}
            if len(sums) > MOST_SUMS:
                raise UnfitError
        return sorted(sums)


Writes = dict["Place", list[tuple[int, int, int]]]
"""location -> thread, instruction and operand of each strong write"""


def find_sums(
    code: Sequence[Sequence[int]], live: Sequence[frozenset[int]], writes: Writes, read: set[Place]
) -> frozenset[Place]:
    """Return the locations whose strong accesses are atomics of one kind that commutes, with unused results."""
    found = set()
    for place, made in writes.items():
        pcs = {pc for _, pc, _ in made}
        kinds = {(code[pc][0], code[pc][7]) for pc in pcs}
        if place in read or len(kinds) > 1 or any(is_used(code, live, pc) for pc in pcs):
            continue
        ((opcode, modifiers),) = kinds
        what, type_ = ATOMICS[NAMES[opcode]]
        if what in _COMMUTING and type_[0] == "b" and modifiers & SERVED != AS_STORE:
            found.add(place)
    return frozenset(found)


def find_counters(
    code: Sequence[Sequence[int]], live: Sequence[frozenset[int]], writes: Writes, sums: frozenset[Place]
) -> dict[Place, int]:
    """Return the counters of an execution with their size in bytes.  A last store may follow the additions."""
    found = {}
    for place, made in writes.items():
        if place in sums:
            continue
        adds = [(pc, operand) for _, pc, operand in made if is_addition(code, pc)]
        tickets = any(is_used(code, live, pc) for pc, _ in adds)
        if len({thread for thread, *_ in made}) == 1 or len(made) - len(adds) > 1 or not adds:
            continue
        if len(adds) < len(made) and (is_addition(code, made[-1][1]) or not tickets):
            continue
        sizes = {SIZE[ATOMICS[NAMES[code[pc][0]]][1]] for pc, _ in adds}
        if len(sizes) > 1:
            continue
        (size,) = sizes
        if all(0 < operand < 1 << (8 * size - 1) for _, operand in adds):
            found[place] = size
    return found


def is_addition(code: Sequence[Sequence[int]], pc: int) -> bool:
    """Return whether an instruction adds integers at a location."""
    what, type_ = ATOMICS[NAMES[code[pc][0]]]
    return what == "add" and type_[0] == "b" and not code[pc][7] & NO_STORE and code[pc][7] & SERVED != AS_STORE


def is_used(code: Sequence[Sequence[int]], live: Sequence[frozenset[int]], pc: int) -> bool:
    """Return whether the result of an atomic is used."""
    return pc + 1 < len(live) and code[pc][2] in live[pc + 1]


def make_order(did: Iterable[Did], base: int, last: Name | None) -> Order:
    """Return the order of the events of an execution at one counter; `last` is the last ticket."""
    order = Order(base)
    events = [*did]
    threads = np.array([one.name[0] for one in events], np.int64)
    numbers = np.array([one.name[1] for one in events], np.int64)
    marks = np.array([one.mark for one in events], np.int64)
    columns = np.array([one.column for one in events], np.int64)
    counts = np.array([one.written for one in events], np.int64)
    adds = np.array([one.amount > 0 for one in events], bool)
    width = int(max(threads.max(initial=0), columns.max(initial=0))) + 1
    rows: Any = np.zeros((len(events), width), np.int64)
    for n, one in enumerate(events):
        rows[n, : min(width, len(one.row))] = one.row[:width]
    # precedes[a, b]: a precedes b
    precedes = marks[:, None] <= rows[:, threads].T
    precedes |= (counts[:, None] <= rows[:, columns].T) & (columns[:, None] > 0)
    same = threads[:, None] == threads[None, :]
    precedes = np.where(same, numbers[:, None] < numbers[None, :], precedes)
    names = [one.name for one in events]
    if last in names:
        at = names.index(last)
        tickets = np.array([one.is_ticket for one in events], bool)
        tickets[at] = False
        precedes[:, at] |= tickets | precedes[:, tickets].any(1)
        follows = precedes[at].copy()
        precedes |= precedes[:, at][:, None] & follows[None, :]
    for n, one in enumerate(events):
        if one.amount:
            order.amounts[one.name] = one.amount
        order.before[one.name] = frozenset(names[m] for m in np.flatnonzero(precedes[:, n] & adds).tolist())
        order.after[one.name] = frozenset(names[m] for m in np.flatnonzero(precedes[n] & adds).tolist())
        order.earlier[one.name] = frozenset(names[m] for m in np.flatnonzero(precedes[:, n] & ~adds).tolist())
    return order


def join_locations(found: Iterable[Location]) -> Location:
    """Return the clocks that a read acquires which observes several additions."""
    given: Any = None
    observed: dict[int, int] = {}
    for one in found:
        observed |= {column: max(count, observed.get(column, 0)) for column, count in one.observed.items()}
        row = one.given.get(WIDE)
        if row is None:
            continue
        if given is None:
            given = row.copy()
        else:
            size = max(len(given), len(row))
            given = np.maximum(np.pad(given, (0, size - len(given))), np.pad(row, (0, size - len(row))))
    return Location(observed, {} if given is None else {WIDE: given})
