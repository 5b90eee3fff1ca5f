"""How the lanes of a register row lie, where that can be told before a program runs: what is the same in all lanes, or
grows by one stride from lane to lane, needs one number instead of 32.

A *shape* is (bits, stride) of such a row, with stride 0 for a number that all lanes share; None is any other row.
Shapes are taken along the control flow as if all lanes of a warp always went together.  Whoever relies on one looks at
the row when control comes from elsewhere, and leaves the block where lanes part.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wsemu.machine.arithmetic.families import family_of
from wsemu.model.control_flow import successors
from wsemu.model.data import NamedTuple
from wsemu.model.isa import LANES, N_ALU, N_MEMORY, N_OPERATIONS, NAMES, OPERATIONS, ROW, SIZE, memory_shape

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from wsemu.model.program import Program

Shape = tuple[int, int] | None
State = dict[int, Shape]
"""by row"""
CREDIT = 64
"""of each place where a block may be entered, at most and at first: where there is none, the VM goes on"""
APART = frozenset({"library", "directed"})
"""families whose operations are always called by address"""


def bits_of(type_: str) -> int:
    """Of a register type."""
    return 1 if type_ == "p" else 8 * SIZE[type_]


class Use(NamedTuple):
    """The rows that an instruction reads and writes, with their types."""

    reads: tuple[tuple[int, str], ...]
    writes: tuple[tuple[int, str], ...]
    reads_any: bool = False
    """it reads others too, for all one can say"""
    writes_from: int = -1
    """the row from which on it may write any; -1: none"""


def use_of(row: Sequence[int]) -> Use:
    """What one instruction uses."""
    op, guard, d, a, *_ = row
    asked = ((guard >> 1, "p"),) if guard else ()
    if op >= N_OPERATIONS:
        return Use(asked, (), True, 0)
    if N_ALU <= op < N_MEMORY:
        store, size, n = memory_shape(NAMES[op])
        moved = tuple((d + j * ROW, f"b{8 * size}") for j in range(n))
        if store:
            return Use((*asked, (a, "b64"), *moved), ())
        return Use((*asked, (a, "b64"), *(moved if guard else ())), moved)
    operation = OPERATIONS[NAMES[op]]
    written = ((d, operation.result),) if operation.result else ()
    if op < N_ALU:
        operands = tuple((row[3 + k], t) for k, t in enumerate(operation.operands))
        return Use((*asked, *operands, *(written if guard else ())), written)
    if operation.kind == "control":
        return Use(asked, ())
    if operation.kind == "warp" and row[7]:  # of a shuffle, whether its source was there
        written = (*written, (row[7], "p"))
    many = operation.kind == "matrix" or operation.name.startswith("wgmma.")
    return Use(asked, written, True, d if written and many else -1)


def _signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


_Strides = tuple[int, ...]
_Values = tuple[int | None, ...]


def _times(stride: int, value: int | None) -> int | None:
    if stride == 0:
        return 0
    return None if value is None else stride * value


def _product(s: _Strides, v: _Values) -> int | None:
    if s[0] and s[1]:
        return None
    return _times(s[0], v[1]) if s[0] else _times(s[1], v[0])


def _sum_of_product(s: _Strides, v: _Values) -> int | None:
    product = _product(s, v)
    return None if product is None else product + s[2]


def _shifted(s: _Strides, v: _Values) -> int | None:
    return None if s[1] or v[1] is None or not 0 <= v[1] < 64 else s[0] << v[1]


def _address(s: _Strides, v: _Values) -> int | None:
    if s[1] or s[2] or abs(s[0]) >> 32:  # so that indices between the first and the last lane's do not come round
        return None
    product = _times(s[0], v[2])
    return None if product is None else product + s[3]


_LINEAR: dict[str, Callable[[_Strides, _Values], int | None]] = {
    "mov": lambda s, v: s[0],
    "varying": lambda s, v: s[0],
    "neg": lambda s, v: -s[0],
    "cvt": lambda s, v: s[0],
    "add": lambda s, v: s[0] + s[1],
    "sub": lambda s, v: s[0] - s[1],
    "mul": _product,
    "mad": _sum_of_product,
    "shl": _shifted,
    "index": _address,
}
"""integer operations whose result grows by one stride from lane to lane if their operands do: that stride"""
_WHOLE = frozenset({"b32", "b64"})


def arithmetic(name: str, shapes: Sequence[Shape], values: _Values) -> Shape:
    """The shape of what an arithmetic operation gives; `values` of operands that are constants."""
    if any(shape is None for shape in shapes) or family_of(name) in APART:
        return None
    strides = tuple(shape[1] for shape in shapes if shape)
    operation = OPERATIONS[name]
    bits = bits_of(operation.result)
    if not any(strides):
        return bits, 0
    what = name.split(".")[0]
    if what not in _LINEAR or not {operation.result, *operation.operands} <= _WHOLE:
        return None
    stride = _LINEAR[what](strides, values)
    return None if stride is None else (bits, _signed(stride, bits))


class Rows:
    """The shapes of a program's rows before each instruction, and which rows are used behind it."""

    def __init__(self, program: Program, given: dict[int, Shape]) -> None:
        """`given`: how those lie that no instruction writes, see `given_shapes`."""
        self.code = program.code.tolist()
        self.uses, self.types, _ = _rows_of(program)
        self.given = frozenset(given)
        self.constants = {row: int(value) for row, t, value in program.constants if row in given and t[0] == "b"}
        self.first: State = {}
        for row, t in sorted(self.types):  # registers are 0 at first
            found = given[row] if row in given else (bits_of(t), 0)
            self.first[row] = found if row not in self.first or self.first[row] == found else None
        self.before: list[State | None] = self._along_the_flow()
        self.live = self._used_later()

    def shape(self, state: State, row: int, type_: str) -> Shape:
        """Of a row as an operand of a type."""
        found = self.first[row] if row in self.given else state.get(row)
        return found if found and found[0] == bits_of(type_) else None

    def after(self, pc: int, state: State) -> State:
        """The shapes behind an instruction."""
        row, use = self.code[pc], self.uses[pc]
        if not use.writes and use.writes_from < 0:
            return state
        if use.reads_any:
            gone = {at for at, _ in use.writes}
            return {at: shape for at, shape in state.items() if at not in gone and not 0 <= use.writes_from <= at}
        state = dict(state)
        guard = self.shape(state, row[1] >> 1, "p") if row[1] else (1, 0)
        if row[0] < N_ALU:
            place, t = use.writes[0]
            operation = OPERATIONS[NAMES[row[0]]]
            operands = [(row[3 + k], kind) for k, kind in enumerate(operation.operands)]
            shapes = [self.shape(state, at, kind) for at, kind in operands]
            result = arithmetic(NAMES[row[0]], shapes, tuple(self.constants.get(at) for at, _ in operands))
            old = self.shape(state, place, t) if row[1] else result
            state[place] = result if guard and old == result else None
            return state
        alone = row[0] < N_MEMORY and not row[1] and self.shape(state, row[3], "b64") in _SHARED
        for place, t in use.writes:
            state[place] = (bits_of(t), 0) if alone else None
        return state

    def _along_the_flow(self) -> list[State | None]:
        n = len(self.code)
        before: list[State | None] = [None] * n
        before[0] = {row: shape for row, shape in self.first.items() if row not in self.given}
        queue = [0]
        while queue:
            pc = queue.pop()
            state = before[pc]
            assert state is not None
            after = self.after(pc, state)
            for following in successors(pc, self.code[pc]):
                if following >= n:
                    continue
                met = before[following]
                joined = after if met is None else {r: s for r, s in met.items() if s and after.get(r) == s}
                if met is None or len(joined) != sum(1 for s in met.values() if s):
                    before[following] = dict(joined)
                    queue.append(following)
        return before

    def _used_later(self) -> list[frozenset[int]]:
        """Before each instruction the rows whose values may still be read."""
        n = len(self.code)
        numbers = {row: k for k, row in enumerate(sorted({row for row, _ in self.types}))}
        everything = (1 << len(numbers)) - 1
        live = [0] * (n + 1)
        changed = True
        while changed:
            changed = False
            for pc in range(n - 1, -1, -1):
                use = self.uses[pc]
                after = 0
                for following in successors(pc, self.code[pc]):
                    after |= live[following] if following < n else 0
                for row, _ in use.writes:
                    after &= ~(1 << numbers[row])
                for row, _ in use.reads:
                    after |= 1 << numbers[row]
                if use.reads_any:
                    after = everything
                if after != live[pc]:
                    live[pc] = after
                    changed = True
        rows = list(numbers)
        return [frozenset(rows[k] for k in range(len(rows)) if bits >> k & 1) for bits in live[:n]]


_SHARED = ((64, 0),)
"""the shape of an address that all lanes have"""


def given_shapes(program: Program, registers: npt.NDArray[np.uint8]) -> dict[int, Shape]:
    """How rows lie that no instruction writes, in the registers of all warps: so they do at any time of a launch."""
    _, types, written = _rows_of(program)
    shapes: dict[int, Shape] = {}
    for row, t in sorted(types):
        if row not in written:
            found = _lie(registers, row, t)
            shapes[row] = found if row not in shapes or shapes[row] == found else None
    return shapes


class _RowsOf(NamedTuple):
    """What a program does with rows: per instruction; all of them with their types; those that are written."""

    uses: tuple[Use, ...]
    types: frozenset[tuple[int, str]]
    written: frozenset[int]


def _rows_of(program: Program) -> _RowsOf:
    if "rows" not in program.derived:
        uses = tuple(use_of(row) for row in program.code.tolist())
        types = frozenset(one for use in uses for one in (*use.reads, *use.writes))
        anything = min((use.writes_from for use in uses if use.writes_from >= 0), default=program.register_bytes)
        written = frozenset(row for use in uses for row, _ in use.writes)
        written |= frozenset(row for row, _ in types if row >= anything)
        program.derived["rows"] = _RowsOf(uses, types, written)
    found: _RowsOf = program.derived["rows"]
    return found


def _lie(registers: npt.NDArray[np.uint8], row: int, type_: str) -> Shape:
    """How the lanes of a row lie, in all warps."""
    if type_ == "p":
        words = registers[:, row : row + 4].copy().view(np.uint32)
        return (1, 0) if np.isin(words, (0, 0xFFFFFFFF)).all() else None
    size = SIZE[type_]
    values = registers[:, row : row + LANES * size].copy().view(f"i{size}").astype(np.int64)
    steps = np.diff(values, axis=1)
    stride = int(steps[0, 0])
    return (8 * size, stride) if (steps == stride).all() else None
