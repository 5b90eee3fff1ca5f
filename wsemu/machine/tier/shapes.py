"""Shapes of register rows: patterns of the lanes that are known before a program runs.

If a row is uniform, grows by one stride from lane to lane, or has known distances between lanes, then one number
replaces 32. A `Shape` describes such a row; None is any other row. The analysis propagates shapes along the control
flow as if all lanes of a warp always stayed together. A block that relies on a shape therefore checks the row when
control comes from elsewhere, and leaves when lanes diverge.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np

from wsemu.machine.arithmetic.families import family_of
from wsemu.machine.tier.section_tables import may_have
from wsemu.model.control_flow import BRA, JOIN, JUMP, inner_loop_numbers, loop_numbers, successors
from wsemu.model.data import NamedTuple
from wsemu.model.isa import (
    ADDRESS_OUT,
    ADDRESS_WRAPPED,
    INDEX_BIAS,
    LANES,
    N_ALU,
    N_MEMORY,
    N_OPERATIONS,
    NAMES,
    OPERATIONS,
    ROW,
    SEGMENT_SHIFT,
    SIZE,
    access_numbers,
    memory_shape,
)
from wsemu.model.read_only import loads_read_only

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from wsemu.model.program import Program

Steps = tuple[int, ...]
"""distances of each lane's number from the first lane's, modulo the bits of the row: from -(1 << bits - 1) on"""


class Shape(NamedTuple):
    """The shape of a row: `steps` are the distances of its lanes' numbers from the first lane's."""

    bits: int
    steps: Steps
    twos: int = 0
    """the first lane's number is a multiple of 1 << twos"""

    @property
    def alike(self) -> bool:
        """Return whether all lanes have one number."""
        return self.steps == UNIFORM

    @property
    def low_bits_alone(self) -> bool:
        """Return whether no step has a bit that the first lane's number may have: then `or` adds a step to that
        number."""
        return min(self.steps) >= 0 and max(self.steps) >> self.twos == 0


State = dict[int, Shape | None]
"""shape of each row; None if unknown"""


@functools.cache
def line(stride: int) -> Steps:
    """Return the steps of lanes that are a stride apart."""
    return tuple(stride * lane for lane in range(LANES))


UNIFORM = line(0)


def uniform(bits: int) -> Shape:
    """Return the shape of a row whose lanes all have one number."""
    return Shape(bits, UNIFORM)


def same_steps(one: Shape | None, other: Shape | None) -> bool:
    """Return whether rows of two shapes are stored alike: with equal steps."""
    return one is not None and other is not None and one.bits == other.bits and one.steps == other.steps


def join_shapes(one: Shape | None, other: Shape | None) -> Shape | None:
    """Return the shape of a row that has one of two shapes."""
    if one is other:
        return one
    if one is None or other is None or not same_steps(one, other):
        return None
    return one if one.twos <= other.twos else other


CREDIT = 64
"""initial and maximum credit of each entry of a block; an entry without credit is left to the VM"""
APART = frozenset({"library", "directed"})
"""families whose operations are always called by address"""


def bits_of(type_: str) -> int:
    """Return the bits of a register type."""
    return 1 if type_ == "p" else 8 * SIZE[type_]


class Use(NamedTuple):
    """The rows that an instruction reads and writes, with their types."""

    reads: tuple[tuple[int, str], ...]
    writes: tuple[tuple[int, str], ...]
    reads_any: bool = False
    """true if it may read any other row as well"""
    writes_from: int = -1
    """first row of a range, without an end, that it may write; -1: none"""


def use_of(row: Sequence[int]) -> Use:
    """Return the use of rows by one instruction."""
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
    if op < N_ALU or operation.kind in ("barrier", "fence"):
        operands = tuple((row[3 + k], t) for k, t in enumerate(operation.operands) if op < N_ALU or row[3 + k])
        return Use((*asked, *operands, *(written if guard else ())), written)
    if operation.kind == "control":
        return Use(asked, ())
    if operation.kind == "warp" and row[7]:  # predicate of a shuffle: whether the source lane participates
        written = (*written, (row[7], "p"))
    many = operation.kind == "matrix" or operation.name.startswith("wgmma.")
    return Use(asked, written, True, d if written and many else -1)


def _to_signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


_Values = tuple[int | None, ...]
"""values of operands that are constants"""
_MOST_TWOS = 62


def _twos(value: int) -> int:
    """Return log2 of the largest power of two that divides a number."""
    return (value & -value).bit_length() - 1 if value else _MOST_TWOS


def _times(step: int, value: int | None) -> int | None:
    if step == 0:
        return 0
    return None if value is None else step * value


def _product(s: Steps, v: _Values) -> int | None:
    if s[0] and s[1]:
        return None
    return _times(s[0], v[1]) if s[0] else _times(s[1], v[0])


def _sum_of_product(s: Steps, v: _Values) -> int | None:
    product = _product(s, v)
    return None if product is None else product + s[2]


def _shift_steps(s: Steps, v: _Values) -> int | None:
    return None if s[1] or v[1] is None or not 0 <= v[1] < 64 else s[0] << v[1]


def _address(s: Steps, v: _Values) -> int | None:
    if s[1] or s[2] or abs(s[0]) >> 32:  # otherwise indices between the first and another lane's could wrap
        return None
    product = _times(s[0], v[2])
    return None if product is None else product + s[3]


class _Linear(NamedTuple):
    """An integer operation: the difference of its result between two lanes depends only on the differences of its
    operands."""

    step: Callable[[Steps, _Values], int | None]
    """steps of one lane, from the steps of its operands; None if they are unknown"""
    twos: Callable[[tuple[int, ...], _Values], int]
    """trailing zeros of the result's first number, from those of the operands"""


_LINEAR = {
    "mov": _Linear(lambda s, v: s[0], lambda n, v: n[0]),
    "varying": _Linear(lambda s, v: s[0], lambda n, v: n[0]),
    "neg": _Linear(lambda s, v: -s[0], lambda n, v: n[0]),
    "cvt": _Linear(lambda s, v: s[0], lambda n, v: n[0]),
    "add": _Linear(lambda s, v: s[0] + s[1], lambda n, v: min(n)),
    "sub": _Linear(lambda s, v: s[0] - s[1], lambda n, v: min(n)),
    "mul": _Linear(_product, lambda n, v: n[0] + n[1]),
    "mad": _Linear(_sum_of_product, lambda n, v: min(n[0] + n[1], n[2])),
    "mulwide": _Linear(_product, lambda n, v: n[0] + n[1]),
    "madwide": _Linear(_sum_of_product, lambda n, v: min(n[0] + n[1], n[2])),
    "shl": _Linear(_shift_steps, lambda n, v: n[0] + min(max(v[1] or 0, 0), 31)),
    "index": _Linear(_address, lambda n, v: min(n[0] + n[2], n[3])),
}


class _Bitwise(NamedTuple):
    """An integer operation with a constant that acts separately on the bits of the first lane's number and of the
    steps, if they have no bit in common."""

    step: Callable[[int, int], int]
    """step of one lane, from its operand's step and the constant"""
    twos: Callable[[int, int], int]
    """trailing zeros of the result's first number, from the operand's and the constant"""
    either: bool = True
    """true if the constant may be the first operand"""


_BITWISE = {
    "and": _Bitwise(lambda s, c: s & c, lambda n, c: max(n, _twos(c))),
    "or": _Bitwise(lambda s, c: s & ~c, lambda n, c: min(n, _twos(c))),
    "xor": _Bitwise(lambda s, c: (s ^ c) - c, lambda n, c: min(n, _twos(c))),
    "shr": _Bitwise(lambda s, c: s >> c, lambda n, c: max(n - c, 0), either=False),
}
_WHOLE = frozenset({"b32", "b64"})


@functools.lru_cache(4096)
def arithmetic(name: str, shapes: tuple[Shape | None, ...], values: _Values) -> Shape | None:
    """Return the shape of the result of an arithmetic operation; `values` has the values of constant operands."""
    known = [shape for shape in shapes if shape is not None]
    if len(known) < len(shapes) or family_of(name) in APART:
        return None
    operation = OPERATIONS[name]
    bits = bits_of(operation.result)
    what, whole = name.split(".")[0], {operation.result, *operation.operands} <= _WHOLE
    steps: Steps | None = UNIFORM if all(shape.alike for shape in known) else None
    twos = 0
    if what in ("mulwide", "madwide"):
        values = tuple(_extend_factor(value, name, t) for value, t in zip(values, operation.operands, strict=True))
    if whole and what in _LINEAR:
        rule = _LINEAR[what]
        steps = steps or _each_lane(rule.step, known, values, bits)
        own = (shape.twos if value is None else _twos(value) for shape, value in zip(known, values, strict=True))
        twos = rule.twos(tuple(own), values)
    elif whole and what in _BITWISE and steps is None:
        bit_rule = _BITWISE[what]
        at = 1 if values[1] is not None or not bit_rule.either else 0
        shape, constant = known[1 - at], values[at]
        if constant is not None and shape.low_bits_alone and (what != "shr" or 0 <= constant < bits):
            constant &= (1 << bits) - 1
            steps = tuple(_to_signed(bit_rule.step(step, constant), bits) for step in shape.steps)
            twos = bit_rule.twos(shape.twos, constant)
    return None if steps is None else Shape(bits, steps, min(twos, _MOST_TWOS))


def _extend_factor(value: int | None, name: str, type_: str) -> int | None:
    """Return a constant factor, extended as the named operation does."""
    if value is None or type_ != "b32":
        return value
    return _to_signed(value, 32) if name.endswith("s32") else value & 0xFFFFFFFF


def _each_lane(
    rule: Callable[[Steps, _Values], int | None], shapes: Sequence[Shape], values: _Values, bits: int
) -> Steps | None:
    found = []
    for lane in range(LANES):
        step = rule(tuple(shape.steps[lane] for shape in shapes), values)
        if step is None:
            return None
        found.append(_to_signed(step, bits))
    return tuple(found)


class Side(NamedTuple):
    """The instructions of the lanes that take one side of a branch, up to their reconvergence point, in order."""

    start: int
    end: int
    """the instruction after the last one"""


class Parting(NamedTuple):
    """A branch at which lanes may diverge, and converge again after a few instructions."""

    join: int
    sides: tuple[Side, ...]
    """sides in the order in which they execute"""


def _side(code: Sequence[Sequence[int]], start: int, join: int) -> Side | None:
    """Return the side of a branch from an instruction to the join; None if it has more than arithmetic, loads and
    stores."""
    pc = start
    while pc < len(code) and code[pc][0] < N_MEMORY and pc != join:
        pc += 1
    there = pc == join or (pc < len(code) and code[pc][0] == JUMP and code[pc][6] == join)
    return Side(start, pc) if there else None


def parting(code: Sequence[Sequence[int]], pc: int) -> Parting | None:
    """Return the two sides of a branch; None if they have more than arithmetic, loads and stores."""
    op, guard, *_, join, target = code[pc][:7]
    if op != BRA or not guard or join < 0 or pc + 1 in (join, target) or code[join][0] != JOIN:
        return None
    sides = [_side(code, start, join) for start in (pc + 1, target) if start != join]
    return Parting(join, tuple(side for side in sides if side)) if all(sides) else None


class Rows:
    """The shapes of a program's rows before each instruction, and the rows that are live there."""

    def __init__(self, program: Program, given: dict[int, Shape | None], outside: frozenset[int] = frozenset()) -> None:
        """Analyze a program. `given` has the shapes of rows that no instruction writes, see `given_shapes`; `outside`
        the `index` instructions whose index is known to be outside, see `indices_outside`."""
        self.outside = outside
        self.reads_only = loads_read_only(program)
        self.code = program.code.tolist()
        self.meets = may_have(program)
        """true if CTAs may have `sections`"""
        self.accesses = access_numbers(row[0] for row in self.code)
        self.uses, self.types, _ = _rows_of(program)
        self.given = frozenset(given)
        self.constants = {row: int(value) for row, t, value in program.constants if row in given and t[0] == "b"}
        found_parting = {pc: parting(self.code, pc) for pc in range(len(self.code)) if self.code[pc][0] == BRA}
        self.partings = {pc: one for pc, one in found_parting.items() if one}
        """branch -> its two sides"""
        self.first: State = {}
        for row, t in sorted(self.types):  # all registers are initially 0
            found = given[row] if row in given else uniform(bits_of(t))
            self.first[row] = join_shapes(found, self.first.get(row, found))
        self.before: list[State | None] = self._along_the_flow()
        self._live, self._live_rows = self._used_later()
        self._live_sets: dict[int, frozenset[int]] = {}
        self._loops = [*zip(loop_numbers(program), inner_loop_numbers(program), strict=True)]

    def shape(self, state: State, row: int, type_: str) -> Shape | None:
        """Return the shape of a row as an operand of a type."""
        found = self.first[row] if row in self.given else state.get(row)
        return found if found and found.bits == bits_of(type_) else None

    def after(self, pc: int, state: State) -> State:
        """Return the shapes after an instruction."""
        row, use = self.code[pc], self.uses[pc]
        if not use.writes and use.writes_from < 0:
            return state
        if use.reads_any:
            gone = {at for at, _ in use.writes}
            return {at: shape for at, shape in state.items() if at not in gone and not 0 <= use.writes_from <= at}
        state = dict(state)
        guard = self.shape(state, row[1] >> 1, "p") if row[1] else uniform(1)
        if row[0] < N_ALU:
            place, t = use.writes[0]
            operation = OPERATIONS[NAMES[row[0]]]
            operands = [(row[3 + k], kind) for k, kind in enumerate(operation.operands)]
            shapes = tuple(self.shape(state, at, kind) for at, kind in operands)
            result = arithmetic(NAMES[row[0]], shapes, tuple(self.constants.get(at) for at, _ in operands))
            old = self.shape(state, place, t) if row[1] else result
            state[place] = join_shapes(old, result) if guard and pc not in self.outside else None
            return state
        address = self.shape(state, row[3], "b64") if row[0] < N_MEMORY and not row[1] else None
        for place, t in use.writes:
            state[place] = uniform(bits_of(t)) if address and address.alike else None
        return state

    @functools.cached_property
    def _rows_written_by_loop(self) -> dict[tuple[int, int], set[int]]:
        """Return, for each loop, the rows that its instructions write."""
        found: dict[tuple[int, int], set[int]] = {}
        for loop, use in zip(self._loops, self.uses, strict=True):
            for own in {loop, (loop[0], -1)}:  # an inner loop is part of the loop around it
                found.setdefault(own, set()).update(row for row, _ in use.writes)
        return found

    def invariant_rows(self, pc: int) -> frozenset[int]:
        """Return the rows with shapes that no instruction of the loop around pc writes; none outside of loops."""
        loop, state = self._loops[pc], self.before[pc] or {}
        if loop[0] < 0:
            return frozenset()
        return frozenset(row for row, shape in state.items() if shape) - self._rows_written_by_loop[loop]

    def after_some(self, pc: int, state: State) -> State:
        """Return the shapes after an instruction that only some lanes have executed."""
        written = {row for row, _ in self.uses[pc].writes}
        return {row: shape for row, shape in state.items() if row not in written}

    def _reconverge(self, pc: int, state: State) -> tuple[int, State] | None:
        """Return where lanes that diverge at a branch have converged, and the shapes there; None if they cannot, or run
        alone until then."""
        found = self.partings.get(pc)
        if found is None or self.shape(state, self.code[pc][1] >> 1, "p"):
            return None
        for side in found.sides:
            for at in range(side.start, side.end):
                state = self.after_some(at, state)
        return found.join + 1, state

    def _along_the_flow(self) -> list[State | None]:
        n = len(self.code)
        before: list[State | None] = [None] * n
        before[0] = {row: shape for row, shape in self.first.items() if row not in self.given}
        queue = [0]
        while queue:
            pc = queue.pop()
            state = before[pc]
            assert state is not None
            after, met_again = self.after(pc, state), self._reconverge(pc, state)
            ways = [(following, after) for following in successors(pc, self.code[pc])]
            for following, after in [*ways, met_again] if met_again else ways:
                if following >= n:
                    continue
                met = before[following]
                either = (
                    after if met is None else {row: join_shapes(shape, after.get(row)) for row, shape in met.items()}
                )
                if met != either:
                    before[following] = dict(either)
                    queue.append(following)
        return before

    def live(self, pc: int) -> frozenset[int]:
        """Return the rows that are live before an instruction."""
        if pc not in self._live_sets:
            bits = self._live[pc]
            self._live_sets[pc] = frozenset(row for k, row in enumerate(self._live_rows) if bits >> k & 1)
        return self._live_sets[pc]

    def _used_later(self) -> tuple[list[int], list[int]]:
        """Return the live rows before each instruction, as bits, and the list of all rows."""
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
        return live[:n], list(numbers)


def given_shapes(program: Program, registers: npt.NDArray[np.uint8]) -> dict[int, Shape | None]:
    """Return the shapes of rows that no instruction writes, in the registers of all warps: they hold at any time of a
    launch."""
    _, types, written = _rows_of(program)
    shapes: dict[int, Shape | None] = {}
    for row, t in sorted(types):
        if row not in written:
            found = _lie(registers, row, t)
            shapes[row] = join_shapes(found, shapes.get(row, found))
    return shapes


def indices_outside(program: Program, registers: npt.NDArray[np.uint8], segments: int) -> frozenset[int]:
    """Return the `index` instructions with an index outside of the array in some lane.

    Compilers compute addresses before it is known which lanes use them.
    """
    places = {pc: row[2] for pc, row in enumerate(program.code.tolist()) if NAMES[row[0]].startswith("index.")}
    flagged = {}
    for row in set(places.values()):
        values = registers[:, row : row + LANES * 8].copy().view(np.int64)
        index = (values & (ADDRESS_OUT - 1)) >> SEGMENT_SHIFT
        out = (values >= ADDRESS_OUT) & (abs(index - INDEX_BIAS) < INDEX_BIAS >> 2)
        wrapped = (values & -ADDRESS_WRAPPED == ADDRESS_WRAPPED) & (index & ((INDEX_BIAS << 1) - 1) < segments)
        flagged[row] = (out | wrapped).any()
    return frozenset(pc for pc, row in places.items() if flagged[row])


class _RowsOf(NamedTuple):
    """The uses of rows by a program: for each instruction; all rows with their types; and the written rows."""

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


def _lie(registers: npt.NDArray[np.uint8], row: int, type_: str) -> Shape | None:
    """Return the pattern of a row's lanes, in all warps."""
    if type_ == "p":
        words = registers[:, row : row + 4].copy().view(np.uint32)
        return uniform(1) if np.isin(words, (0, 0xFFFFFFFF)).all() else None
    size = SIZE[type_]
    values = registers[:, row : row + LANES * size].copy().view(f"i{size}")
    steps = values - values[:, :1]
    if (steps != steps[0]).any():
        return None
    twos = _twos(int(np.bitwise_or.reduce(values[:, 0].astype(np.int64))))
    # other arguments may have other common bits, and knowing these gains nothing
    return Shape(8 * size, tuple(steps[0].tolist()), min(twos, LANES.bit_length() - 1) if steps[0].any() else 0)
