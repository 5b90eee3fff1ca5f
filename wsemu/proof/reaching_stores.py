"""The stores and atomics of a run from which its loads read.

If a launch does the same in every schedule, its loads read from the same stores as in one run, because no accesses
race.  So the analysis of influences (`taint.py`) may follow values from stores to the loads that read them, instead of
from arrays to arrays: docs/how.md, "The stores that a load reads from".
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import numpy as np

from wsemu.model.data import NamedTuple
from wsemu.model.isa import (
    ADDRESS_WRAPPED,
    FIRST_ARRAY,
    LOCAL,
    LOCAL_SHIFT,
    NAMES,
    OFFSET_MASK,
    OPERATIONS,
    SEGMENT_SHIFT,
    SHARED,
    access_shape,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    from wsemu.model.program import Program
    from wsemu.proof.threads import Made

KINDS = ("load", "store", "atomic")
"""kinds of operations that access memory, in a program without asynchronous operations"""
MOST_BYTES = 1 << 28
"""maximum size of the tables of last writers, in bytes"""


class Reaching(NamedTuple):
    """The flow of values through memory in a run."""

    read: dict[int, frozenset[int]]
    """load or atomic -> the stores and atomics that wrote what it read"""
    together: dict[int, int]
    """atomic -> one of the atomics that access bytes in common with it, directly or through others"""
    outlasting: frozenset[int]
    """stores and atomics that access arrays"""


NOTHING = Reaching({}, {}, frozenset())
"""the flow in a run whose loads read only what was there before"""


class LastWriters:
    """The instruction that wrote each byte last, updated access by access."""

    def __init__(self, program: Program) -> None:
        names = [NAMES[op] for op in program.code[:, 0].tolist()]
        self.kinds = {pc: OPERATIONS[name].kind for pc, name in enumerate(names) if OPERATIONS[name].kind in KINDS}
        self.sizes = {pc: access_shape(names[pc])[1] for pc in self.kinds}
        self.tables: dict[tuple[object, int], npt.NDArray[np.int32]] = {}
        """(CTA or thread to which the memory belongs, segment) -> last writer of each byte, and last atomic"""
        self.read: dict[int, set[int]] = {}
        self.parents: dict[int, int] = {}
        self.outlasting: set[int] = set()
        self.room = MOST_BYTES
        self.kept: set[tuple[object, int]] = set()
        """tables that belong to another path as well"""

    @property
    def reaching(self) -> Reaching | None:
        """The flow of values so far, or None if the accesses were too many to follow."""
        if self.room < 0:
            return None
        together = {pc: self._find(pc) for pc in self.parents}
        return Reaching({pc: frozenset(found) for pc, found in self.read.items()}, together, frozenset(self.outlasting))

    def fork(self) -> LastWriters:
        """Return a path that begins with the arrays of this one, and with nothing in shared and local memory."""
        other = copy.copy(self)
        other.tables = {key: table for key, table in self.tables.items() if key[1] >= FIRST_ARRAY}
        other.kept = {*other.tables}
        return other

    def add(self, cta: int, warp: int, pc: int, addresses: Iterable[tuple[int, int]]) -> None:
        """Record an access of some lanes of a warp, with (lane, address) of each."""
        owners: dict[tuple[object, int], list[int]] = {}
        for lane, address in addresses:
            address &= ~ADDRESS_WRAPPED
            segment = address >> SEGMENT_SHIFT
            owner = cta if segment == SHARED else (cta, warp, lane) if segment == LOCAL else -1
            offset = address & ((1 << LOCAL_SHIFT) - 1 if segment == LOCAL else OFFSET_MASK)
            owners.setdefault((owner, segment), []).append(offset)
        for key, offsets in owners.items():
            self._access(key, pc, np.array(offsets))

    def add_all(self, cta: int, made: Iterable[Made]) -> None:
        """Record the accesses among the events of a CTA."""
        for one in made:
            if one.event.kind == "access" and one.event.pc in self.kinds:
                self.add(cta, one.event.warp, one.event.pc, one.addresses)

    def _access(self, key: tuple[object, int], pc: int, offsets: npt.NDArray[np.int64]) -> None:
        at = (offsets[:, None] + np.arange(self.sizes[pc])).ravel()
        kind = self.kinds[pc]
        table = self._table(key, int(at.max()) + 1, writes=kind != "load")
        if table is None:
            return
        if kind != "store":
            self.read.setdefault(pc, set()).update(np.unique(table[0, at]).tolist())
            self.read[pc].discard(-1)
        if kind == "atomic":
            for other in np.unique(table[1, at]).tolist():
                self.parents[self._find(pc)] = self._find(pc if other < 0 else other)
            table[1, at] = pc
        if kind != "load":
            table[0, at] = pc
            if key[1] >= FIRST_ARRAY:
                self.outlasting.add(pc)

    def _table(self, key: tuple[object, int], size: int, *, writes: bool) -> npt.NDArray[np.int32] | None:
        """Return the table of a memory with room for `size` bytes, or None if tables are too large.  What an access
        `writes` belongs to this path alone."""
        table = self.tables.get(key)
        if table is None or table.shape[1] < size or (writes and key in self.kept):
            known = 0 if table is None else table.shape[1]
            room = known if size <= known else max(size, 2 * known, 256)
            self.room -= 8 * room
            if self.room < 0:
                return None
            grown = np.full((2, room), -1, np.int32)
            if table is not None:
                grown[:, : table.shape[1]] = table
            self.tables[key] = table = grown
            self.kept.discard(key)
        return table

    def _find(self, pc: int) -> int:
        while (parent := self.parents.setdefault(pc, pc)) != pc:
            pc = parent
        return pc
