"""Find stores to locations that a CTA owns by its number: such a use of the number does not matter to other CTAs.

`y[blockIdx.x] = ...` distinguishes CTAs.  Yet if CTAs exchanged their numbers, only the location of a result would
change.  The address of such a store depends only on the thread's indices and the launch's arguments, so each thread has
one address in all interleavings.  If nothing else accesses the array, these addresses can be checked in advance: all
are inside the array, and each CTA has its own.

Detects: addresses by arithmetic on integers that is executed without a condition.
Does not detect: loads at such locations (`x[blockIdx.x]`), addresses computed by counting loops.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.model.control_flow import successors
from wsemu.model.data import NamedTuple
from wsemu.model.isa import ADDRESS_WRAPPED, FIRST_ARRAY, NAMES, OPERATIONS, SEGMENT_SHIFT, access_shape
from wsemu.proof.affine import Geometry, Machine, Value
from wsemu.proof.liveness import live_rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wsemu.model.program import Program

Rows = frozenset[int]
_OFFSET = (1 << SEGMENT_SHIFT) - 1


class Named(NamedTuple):
    """The stores of a launch whose address depends on the number of a CTA."""

    stores: frozenset[int]
    """instructions that store to a named location"""
    live: list[Rows]
    """for each instruction, the rows that matter for anything else"""
    places: dict[int, list[Any]]
    """for each array, the bytes that these stores may write, by CTA, in order of threads"""


class _Made(NamedTuple):
    """A number that is computed from a thread's indices and the launch's arguments."""

    operation: int
    """the operation that computes it; -1: the initial value of a row"""
    operands: tuple[int, ...]
    """numbers of the operands, or the row"""
    pc: int
    """an instruction that computes it, which has its immediates"""


def find_named_stores(
    program: Program, geometry: Geometry, rows: Mapping[int, tuple[str, Any]], arrays: Sequence[tuple[int, int, bool]]
) -> Named | None:
    """Return the stores whose address depends on the number of a CTA, to arrays that no other instruction of the
    program accesses; None if there are none.  `arrays` has (number, bytes, whether it is written) of each array."""
    numbers = _Numbers(program)
    machine = Machine(program, geometry, rows, 0)
    known = _Known(machine, numbers)
    sizes = {number: size for number, size, writable in arrays if writable}
    found: dict[int, tuple[int, Any]] = {}
    for pc, fields in enumerate(numbers.code):
        if OPERATIONS[NAMES[fields[0]]].kind == "store" and (made := numbers.address.get(pc)) is not None:
            places = known.addresses(made, fields[6])
            array = _array(places, access_shape(NAMES[fields[0]])[1], sizes)
            if array is not None and _differs(places, geometry):
                found[pc] = made, places
    stores = {pc: (int(p[0]) >> SEGMENT_SHIFT) - FIRST_ARRAY for pc, (_, p) in found.items()}
    places = {n: _bytes_by_cta(program, [(pc, found[pc][1]) for pc in stores if stores[pc] == n], geometry)
              for n in set(stores.values())}  # fmt: skip
    kept = {n: by_cta for n, by_cta in places.items() if by_cta is not None}
    stores = {pc: n for pc, n in stores.items() if n in kept}
    if not stores:
        return None
    quiet = numbers.slice_instructions(found[pc][0] for pc in stores)
    return Named(frozenset(stores), live_rows(program, frozenset(stores), quiet), kept)


def _array(places: Any, size: int, sizes: Mapping[int, int]) -> int | None:
    """Return the number of the array that contains all of these addresses, if they are aligned."""
    if places is None:
        return None
    numbers = (places >> SEGMENT_SHIFT) - FIRST_ARRAY
    number, offsets = int(numbers[0]), places & _OFFSET
    if number not in sizes or np.any(numbers != number) or np.any(offsets + size > sizes[number]):
        return None
    return None if np.any(offsets % size) else number


def _differs(places: Any, geometry: Geometry) -> bool:
    """Return whether the addresses differ between CTAs."""
    by_cta = places.reshape(geometry.ctas, -1)
    return bool(np.any(by_cta != by_cta[0]))


def _bytes_by_cta(program: Program, stores: list[tuple[int, Any]], geometry: Geometry) -> list[Any] | None:
    """Return the bytes that each CTA may write, in order of instructions and threads; None if two CTAs share one."""
    parts = []
    for pc, places in stores:
        size = access_shape(NAMES[int(program.code[pc, 0])])[1]
        own = (places & _OFFSET).reshape(geometry.ctas, -1, 1) + np.arange(size)
        parts.append(own.reshape(geometry.ctas, -1))
    table = np.concatenate(parts, axis=1)
    each = [np.unique(row) for row in table]
    if len(np.unique(np.concatenate(each))) < sum(map(len, each)):
        return None
    return list(table)


class _Numbers:
    """The rows with such numbers at each instruction, if they are the same on every path to it."""

    def __init__(self, program: Program) -> None:
        self.code = program.code.tolist()
        self.made: list[_Made] = []
        self.numbers: dict[tuple[int, ...], int] = {}
        self.makers: dict[int, set[int]] = {}
        """instructions that compute each number"""
        self.address: dict[int, int] = {}
        """number that is the address of each store"""
        start = [row for row, _, _ in program.constants] + list(program.specials.values())
        start += [parameter.row for parameter in program.parameters]
        start += [array.row for array in program.constant_arrays]
        entry = {row: self._number(-1, (row,), 0) for row in start}
        before: dict[int, dict[int, int]] = {0: entry}
        work = [0]
        while work:
            pc = work.pop()
            after = self._through(pc, dict(before[pc]))
            for target in successors(pc, self.code[pc]):
                if target >= len(self.code):
                    continue
                known = before.get(target)
                joined = after if known is None else {r: n for r, n in known.items() if after.get(r) == n}
                if joined != known:
                    before[target] = joined
                    work.append(target)
        for pc, rows in before.items():
            fields = self.code[pc]
            self._through(pc, dict(rows), keep=True)
            if OPERATIONS[NAMES[fields[0]]].kind == "store" and fields[3] in rows:
                self.address[pc] = rows[fields[3]]

    def _number(self, operation: int, operands: tuple[int, ...], pc: int) -> int:
        more = tuple(self.code[pc][6:]) if operation >= 0 else ()
        key = operation, *operands, *more
        if key not in self.numbers:
            self.numbers[key] = len(self.made)
            self.made.append(_Made(operation, operands, pc))
        return self.numbers[key]

    def _through(self, pc: int, rows: dict[int, int], keep: bool = False) -> dict[int, int]:
        """Return the numbers in rows after an instruction."""
        fields = self.code[pc]
        operation = OPERATIONS[NAMES[fields[0]]]
        if not operation.result:
            if operation.kind not in ("store", "control", "barrier", "fence"):
                rows.clear()
            return rows
        operands = fields[3 : 3 + len(operation.operands)]
        if operation.kind == "alu" and not fields[1] and all(row in rows for row in operands):
            number = self._number(fields[0], tuple(rows[row] for row in operands), pc)
            rows[fields[2]] = number
            if keep:
                self.makers.setdefault(number, set()).add(pc)
            return rows
        if operation.kind in ("alu", "atomic") or NAMES[fields[0]].startswith(("ld.b", "ld.f")):
            rows.pop(fields[2], None)
            return rows
        rows.clear()  # an instruction that writes several rows
        return rows

    def slice_instructions(self, numbers: Any) -> frozenset[int]:
        """Return the instructions that compute these numbers, and those that compute their operands."""
        todo, seen, found = list(numbers), set[int](), set[int]()
        while todo:
            number = todo.pop()
            if number in seen:
                continue
            seen.add(number)
            found |= self.makers.get(number, set())
            if self.made[number].operation >= 0:
                todo += self.made[number].operands
        return frozenset(found)


class _Known:
    """The values of these numbers in every thread, as far as they are known."""

    def __init__(self, machine: Machine, numbers: _Numbers) -> None:
        self.machine, self.numbers = machine, numbers
        self.start = machine.start({})
        self.values: dict[int, Any] = {}

    def addresses(self, number: int, immediate: int) -> Any:
        """Return the address of a store by thread; None if it is unknown, or if an index leaves its dimension."""
        value = self._value(number)
        if not isinstance(value, Value) or not value.constant:
            return None
        wide = np.broadcast_to(np.asarray(value.a, np.int64), self.start.threads.shape)
        return (wide + immediate) & ~np.int64(ADDRESS_WRAPPED)

    def _value(self, number: int) -> Any:
        if number not in self.values:
            self.values[number] = self._compute_numbers(number)
        return self.values[number]

    def _compute_numbers(self, number: int) -> Any:
        made = self.numbers.made[number]
        if made.operation < 0:
            return self.start.state.get(made.operands[0])
        name = NAMES[made.operation]
        operands = [self._value(operand) for operand in made.operands]
        if any(not isinstance(v, Value | bool | np.ndarray) or (isinstance(v, Value) and not v.constant)
               for v in operands):  # fmt: skip
            return None
        if name.startswith("index."):
            index, extent = np.asarray(operands[0].a), np.asarray(operands[1].a)
            if np.any(index < 0) or np.any(index >= extent):
                return None
        return self.machine._alu(name, operands, self.numbers.code[made.pc])
