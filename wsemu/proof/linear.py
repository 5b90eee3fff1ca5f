"""Registers that depend on the result of an atomic by a linear formula.

`taint.py` determines which registers depend on results of atomics; this module determines how, in simple cases.  A
register may hold `c * r + rest`.  Here c is a known constant, and `rest` does not depend on any atomic.  The result r
is from the latest execution of one atomic, by the same lane or by a lane whose value a shuffle delivered.  Numbers that
are the same in the whole launch are tracked as well.  Any other value that depends on a result is `Mixed`.

When an atomic executes again, its earlier results differ from the new one: rows that hold an earlier result become
`far`. A value is also `far` after it came from another lane, or was stored and loaded again.
"""

from __future__ import annotations

import heapq
from collections import Counter
from typing import TYPE_CHECKING, Any

from wsemu.model.data import NamedTuple
from wsemu.model.isa import NAMES, OPERATIONS
from wsemu.proof.taint_steps import offset_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from wsemu.model.program import Program
    from wsemu.proof.taint import Analysis, Block
    from wsemu.proof.taint_steps import Step


class Grown(NamedTuple):
    """The formula c * r + rest of a register."""

    atomic: int
    """instruction of the atomic that returned r"""
    factor: int
    low: int | None = None
    """lower bound of `rest`, as `high` is the upper one; None: there is none"""
    high: int | None = None
    far: bool = False
    """true if r may be the result of an earlier execution or of another lane, or if the value may not contain r"""


class Compared(NamedTuple):
    """A comparison between a register with a formula and a known number."""

    relation: str
    """lt, le, gt, ge, eq or ne"""
    grown: Grown
    number: int
    negated: bool = False


class Small(NamedTuple):
    """A number between two bounds that is the same in all interleavings."""

    low: int
    high: int


class Mixed(NamedTuple):
    """A value that depends on results of atomics, but has no such form."""

    lost: bool = False
    """true if it may contain a result, as after a join of the results of two atomics; false if it depends only on
    comparisons"""


PATIENCE = 8
"""visits of a block, or stores to an array, after which a bound that still changes is dropped"""
MIXED, LOST = Mixed(), Mixed(lost=True)
Held = int | Grown | Compared | Small | Mixed
"""value of a row; a missing row depends on no atomic and may differ between threads"""
Rows = dict[int, Held]
_TURNED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "eq": "eq", "ne": "ne"}


class Linear:
    """The values of rows before each executed instruction."""

    def __init__(self, program: Program, analysis: Analysis, known: Mapping[int, int]) -> None:
        """Analyze a program; `analysis` is its taint from atomics, and `known` maps rows to numbers that the launch
        fixes."""
        self.program, self.analysis = program, analysis
        self.code = program.code.tolist()
        self.atomics = frozenset(analysis._targets) & analysis._bit.keys()
        self.memory: dict[int, Held] = {}
        """number of an array -> the results of atomics that it may contain"""
        self.starts: dict[int, Rows] = {0: dict(known)}
        self.visits: Counter[int] = Counter()
        """block -> number of visits; -1 - n -> number of stores to array n"""
        while True:
            before = dict(self.memory)
            self._flow(sorted(self.starts))
            if self.memory == before:
                break

    def _flow(self, work: list[int]) -> None:
        """Run blocks, and then the successors whose values changed."""
        analysis = self.analysis
        while work:
            start = heapq.heappop(work)
            block = analysis._blocks[start]
            rows = self._through(block)
            for target in block.successors:
                if self._arrive(target, rows) and target not in work:
                    heapq.heappush(work, target)

    def states(self) -> Iterator[tuple[Step, Rows, Any]]:
        """Yield each instruction with the values of rows before it, and with the sources on which they depend."""
        for start in sorted(self.starts):
            block = self.analysis._blocks[start]
            rows, bits = dict(self.starts[start]), dict(block.state or {})
            for step in block.steps:
                yield step, rows, bits
                self._step(step, rows, bits)

    def _through(self, block: Block) -> Rows:
        rows, bits = dict(self.starts[block.start]), dict(block.state or {})
        for step in block.steps:
            self._step(step, rows, bits)
        return rows

    def _arrive(self, target: int, rows: Rows) -> bool:
        known = self.starts.get(target)
        if known is None:
            self.starts[target] = dict(rows)
            return True
        joined = {
            row: held for row in {*known, *rows} if (held := _join_held(known.get(row), rows.get(row))) is not None
        }
        self.visits[target] += 1
        if self.visits[target] > PATIENCE:
            joined = {row: _widen_held(known.get(row), held) for row, held in joined.items()}
        self.starts[target] = joined
        return joined != known

    def _step(self, step: Step, rows: Rows, bits: Any) -> None:
        fields = self.code[step.pc]
        held = self._result(step, fields, rows)
        if step.kind in ("load", "store"):
            held = self._memory(step, fields, rows, bits)
        self.analysis._run(step, bits)
        if step.pc in self.atomics:
            for row, old in rows.items():
                if isinstance(old, Grown) and old.atomic == step.pc:
                    rows[row] = old._replace(far=True)
        for row in step.writes:
            now = held if len(step.writes) == 1 else None
            if bits.get(row, 0) & self.analysis._taint:
                lost = any(isinstance(rows.get(at), Grown) or rows.get(at) == LOST for at in step.reads)
                now = now if isinstance(now, (Grown, Compared)) else LOST if lost or held == LOST else MIXED
            elif not isinstance(now, (int, Small)):
                now = None
            if step.guard:
                now = _join_held(rows.get(row), now)
            if now is None:
                rows.pop(row, None)
            else:
                rows[row] = now

    def _memory(self, step: Step, fields: list[int], rows: Rows, bits: Any) -> Held | None:
        """Return the value that a load finds in its arrays, or record the value that a store leaves in them."""
        arrays = self.analysis._arrays(step, bits) >> self.analysis._regions.first
        numbers = [n for n in range(arrays.bit_length()) if arrays >> n & 1]
        if step.kind == "load":
            found = [self.memory[n] for n in numbers if n in self.memory]
            grown = [one for one in found if isinstance(one, Grown)]
            atomic = any(own >> self.analysis._regions.first & arrays for own in self.analysis._targets.values())
            if not grown or len(grown) < len(found) or len({one[:2] for one in grown}) > 1 or atomic:
                return LOST if grown or LOST in found else None
            low, high = _least(*(one.low for one in grown)), _most(*(one.high for one in grown))
            return Grown(*grown[0][:2], low, high, far=True)
        taint = self.analysis._taint
        moves = bits.get(step.address, 0) & taint
        held = rows.get(fields[2])
        if moves or (any(bits.get(row, 0) & taint for row in step.reads) and not isinstance(held, Grown)):
            held = LOST if moves or held == LOST else MIXED
        for n in numbers if isinstance(held, (Grown, Mixed)) else ():
            known = self.memory.get(n, held)
            self.visits[-1 - n] += 1
            now = _join_held(known, held) or MIXED
            self.memory[n] = now if self.visits[-1 - n] <= PATIENCE else _widen_held(known, now)
        return None

    def _result(self, step: Step, fields: list[int], rows: Rows) -> Held | None:
        name = NAMES[fields[0]]
        if step.pc in self.atomics and step.kind == "atomic":
            return Grown(step.pc, 1, 0, 0)
        if step.kind == "warp" and name.startswith("shfl.") and step.writes == (fields[2],):
            held = rows.get(fields[3])
            return held._replace(far=True) if isinstance(held, Grown) else None
        if step.kind != "alu" or OPERATIONS[name].kind != "alu":
            return None
        operands = [rows.get(row) for row in fields[3 : 3 + len(OPERATIONS[name].operands)]]
        return _compute_held(name, operands, fields)

    def loads(self, step: Step, rows: Rows, bits: Any) -> Held | None:
        """Return the value that a load may return."""
        return self._memory(step, self.code[step.pc], rows, bits)

    def keeps_grown(self, step: Step, bits: Any) -> bool:
        """Return whether all results that the arrays of an access may contain have a formula."""
        arrays = self.analysis._arrays(step, bits) >> self.analysis._regions.first
        held = [held for n, held in self.memory.items() if arrays >> n & 1]
        return all(isinstance(one, Grown) for one in held)

    def address(self, step: Step, rows: Rows) -> Held | None:
        """Return the address of an access."""
        held = rows.get(step.address)
        offset = offset_of(self.code[step.pc][6])
        return _plus(held, offset) if isinstance(held, Grown) else held


def _join_held(one: Held | None, other: Held | None) -> Held | None:
    """Return the value of a row where two paths join."""
    if one == other:
        return one
    if LOST in (one, other) or (MIXED in (one, other) and (isinstance(one, Grown) or isinstance(other, Grown))):
        return LOST
    if MIXED in (one, other):
        return MIXED
    if isinstance(one, Grown) and isinstance(other, Grown):
        if one[:2] != other[:2]:
            return LOST
        return Grown(*one[:2], _least(one.low, other.low), _most(one.high, other.high), one.far or other.far)
    for grown, rest in ((one, other), (other, one)):
        if isinstance(grown, Grown) and not isinstance(rest, Compared):
            return grown._replace(far=True)  # on the other path, the value does not contain r
    if isinstance(one, Grown) or isinstance(other, Grown):
        return LOST
    return MIXED if isinstance(one, Compared) or isinstance(other, Compared) else None


def _widen_held(before: Held | None, now: Held) -> Held:
    """Return the value after widening: a bound that changed since the last visit is dropped."""
    if not isinstance(before, Grown) or not isinstance(now, Grown):
        return now
    low = now.low if now.low == before.low else None
    return now._replace(low=low, high=now.high if now.high == before.high else None)


def _least(*numbers: int | None) -> int | None:
    return None if None in numbers else min(n for n in numbers if n is not None)


def _most(*numbers: int | None) -> int | None:
    return None if None in numbers else max(n for n in numbers if n is not None)


def _compute_held(name: str, x: list[Held | None], fields: list[int]) -> Held | None:
    """Return the value of an arithmetic result."""
    what = name.split(".")[0]
    if what == "popc":
        return Small(0, int(name.split(".b")[1])) if x[0] is None or isinstance(x[0], int) else MIXED
    if what in ("mov", "cvt") and isinstance(x[0], Small):
        return x[0] if ".f" not in name else None
    if what in ("add", "sub") and ".f" not in name:
        x = [_to_signed_held(one, name) for one in x]
    if all(isinstance(one, int) for one in x):
        return _fold_operation(what, name, [one for one in x if isinstance(one, int)])
    if not any(isinstance(one, (Grown, Compared)) for one in x):
        return None
    if any(isinstance(one, Mixed) for one in x):
        return MIXED
    if what in ("mov", "cvt"):
        narrow = ".f" in name or (what == "cvt" and _width(name) < 32)
        return MIXED if narrow else x[0]
    if what in ("not", "and", "or") and isinstance(x[0], Compared) and what == "not":
        return x[0]._replace(negated=not x[0].negated)
    if ".f" in name:
        return MIXED
    match what:
        case "add":
            return _sum(x[0], x[1], 1)
        case "sub":
            return _sum(x[0], x[1], -1)
        case "mul" | "mulwide":
            return _product(x[0], x[1])
        case "mad" | "madwide":
            return _sum(_product(x[0], x[1]), x[2], 1)
        case "shl":
            return _product(x[0], 1 << x[1]) if isinstance(x[1], int) and 0 <= x[1] < 32 else MIXED
        case "index":
            return _sum(_product(x[0], x[2]), x[3], 1) if len(x) > 3 else MIXED
        case "setp":
            return _comparison(name.split(".")[1], x[0], x[1], unsigned=name.split(".")[2][0] != "s")
    return MIXED


def _width(name: str) -> int:
    """Return the number of bits of an operation's result."""
    return int(OPERATIONS[name].result[1:] or 1)


def _to_signed_held(held: Held | None, name: str) -> Held | None:
    """Return a constant addend as a signed number: compilers subtract 1 by adding 4,294,967,295."""
    width = _width(name)
    return held - (1 << width) if isinstance(held, int) and held >> (width - 1) & 1 else held


def _fold_operation(what: str, name: str, x: list[int]) -> int | None:
    if ".f" in name:
        return None
    match what:
        case "mov":
            return x[0]
        case "cvt":
            return x[0] if 0 <= x[0] < 1 << 31 else None
        case "add" | "sub":
            made = x[0] + x[1] if what == "add" else x[0] - x[1]
        case "mul" | "mulwide":
            made = x[0] * x[1]
        case "mad" | "madwide":
            made = x[0] * x[1] + x[2]
        case "shl":
            made = x[0] << x[1] if 0 <= x[1] < 32 else -1
        case _:
            return None
    return made if 0 <= made < 1 << 31 else None


def _sum(one: Held | None, other: Held | None, sign: int) -> Held | None:
    if any(isinstance(held, (Mixed, Compared)) for held in (one, other)):
        return MIXED
    if isinstance(one, Grown) and isinstance(other, Grown):
        return MIXED
    if isinstance(one, Grown):
        return _plus(one, other, sign)
    if isinstance(other, Grown) and sign > 0:
        return _plus(other, one)
    return MIXED if isinstance(other, Grown) else None


def _plus(grown: Grown, more: Held | None, sign: int = 1) -> Grown:
    if isinstance(more, int):
        more = Small(more, more)
    if not isinstance(more, Small) or grown.low is None or grown.high is None:
        return grown._replace(low=None, high=None)
    ends = sign * more.low, sign * more.high
    return grown._replace(low=grown.low + min(ends), high=grown.high + max(ends))


def _product(one: Held | None, other: Held | None) -> Held | None:
    if isinstance(other, Grown):
        one, other = other, one
    if not isinstance(one, Grown):
        return MIXED if isinstance(one, Mixed) or isinstance(other, Mixed) else None
    if not isinstance(other, int) or other <= 0:
        return MIXED
    low, high = (None if bound is None else bound * other for bound in (one.low, one.high))
    return Grown(one.atomic, one.factor * other, low, high, one.far)


def _comparison(relation: str, one: Held | None, other: Held | None, *, unsigned: bool) -> Held | None:
    if isinstance(other, Grown):
        one, other, relation = other, one, _TURNED[relation]
    wraps = unsigned and relation not in ("eq", "ne") and isinstance(one, Grown) and one.low is not None and one.low < 0
    if isinstance(one, Grown) and isinstance(other, int) and 0 <= other < 1 << 31 and not wraps:
        return Compared(relation, one, other)
    return MIXED
