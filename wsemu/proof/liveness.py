"""Live registers: those that some path from an instruction reads before it writes them."""

from __future__ import annotations

import functools
import operator
from typing import TYPE_CHECKING

from wsemu.model.control_flow import successors
from wsemu.model.isa import NAMES, OPERATIONS, SIZE
from wsemu.proof.taint_steps import plain_decoder

if TYPE_CHECKING:
    from wsemu.model.program import Program

Rows = frozenset[int]


def live_rows(
    program: Program,
    apart: frozenset[int] = frozenset(),
    quiet: frozenset[int] = frozenset(),
    overwriting: frozenset[int] = frozenset(),
) -> list[Rows]:
    """Return, for each instruction, the rows that are live just before it.

    A guarded write keeps the old values of other lanes live. `apart` are stores whose address does not matter, `quiet`
    are instructions that matter only if their results do, and `overwriting` are guarded writes after which other lanes
    do not need the old value.
    """
    if apart or quiet or overwriting:
        return _live_rows(program, apart, quiet, overwriting)
    if "live rows" not in program.derived:
        program.derived["live rows"] = _live_rows(program, apart, quiet, overwriting)
    found: list[Rows] = program.derived["live rows"]
    return found


def _live_rows(
    program: Program, apart: frozenset[int], quiet: frozenset[int], overwriting: frozenset[int]
) -> list[Rows]:
    decoder = plain_decoder(program)
    code = program.code.tolist()
    bit_of: dict[int, int] = {}

    def as_bits(rows: set[int]) -> int:
        return functools.reduce(operator.or_, (1 << bit_of.setdefault(row, len(bit_of)) for row in rows), 0)

    reads: list[int] = []
    writes: list[int] = []
    for pc, fields in enumerate(code):
        read: set[int] = {fields[1] >> 1} - {0}
        written: set[int] = set()
        for step in decoder.steps(pc):
            named = (*step.reads, *step.operands, step.address)
            if pc in apart:
                named = tuple(row for row in named if row != step.address)
            read |= {row for row in named if row > 0}
            if not step.guard or pc in overwriting:
                written |= set(step.writes)
        reads.append(as_bits(read))
        writes.append(as_bits(written))
    return _rows_of_bits(_find_fixed_point(code, reads, writes, quiet), [*bit_of])


def _find_fixed_point(code: list[list[int]], reads: list[int], writes: list[int], quiet: frozenset[int]) -> list[int]:
    """Return the live rows before each instruction, as bits in the form of `reads` and `writes`."""
    later = [[after for after in successors(pc, fields) if after < len(code)] for pc, fields in enumerate(code)]
    before: list[set[int]] = [set() for _ in code]
    for pc, reached in enumerate(later):
        for after in reached:
            before[after].add(pc)
    live = [0] * len(code)
    work, queued = list(range(len(code))), [True] * len(code)
    while work:
        pc = work.pop()
        queued[pc] = False
        needed = 0
        for after in later[pc]:
            needed |= live[after]
        now = needed & ~writes[pc]
        if pc not in quiet or writes[pc] & needed:
            now |= reads[pc]
        if now != live[pc]:
            live[pc] = now
            work += (at for at in before[pc] if not queued[at])
            for at in before[pc]:
                queued[at] = True
    return live


def _rows_of_bits(live: list[int], rows: list[int]) -> list[Rows]:
    """Convert sets of bits to sets of rows; equal sets are one object."""
    known: dict[int, Rows] = {}
    for bits in live:
        if bits not in known:
            digits = f"{bits:b}"[::-1]
            known[bits] = frozenset(row for row, digit in zip(rows, digits, strict=False) if digit == "1")
    return [known[bits] for bits in live]


def lane_bytes(program: Program) -> dict[int, int]:
    """Return the bytes of each row that belong to one lane, or 0 for a predicate, which has one bit a lane.

    Rows that only vectors and matrices use are missing.
    """
    if "lane bytes" not in program.derived:
        program.derived["lane bytes"] = _find_lane_bytes(program)
    found: dict[int, int] = program.derived["lane bytes"]
    return found


def _find_lane_bytes(program: Program) -> dict[int, int]:
    found: dict[int, int] = {}
    for fields in program.code.tolist():
        operation = OPERATIONS[NAMES[fields[0]]]
        named = [(operation.result, fields[2]), *zip(operation.operands, fields[3:7], strict=False)]
        for type_, row in named:
            if type_ == "p" or type_ in SIZE:
                found[row] = 0 if type_ == "p" else SIZE[type_]
    return found


Masks = dict[int, int]
"""row -> mask of its live bits"""
_ALL = (1 << 64) - 1
_SIGNS = {"setp.lt.s": 0, "setp.ge.s": 0, "setp.gt.s": -1, "setp.le.s": -1}
"""comparison that tests a sign -> the constant with which it must compare"""


def live_bits(program: Program) -> list[Masks]:
    """Return the live bits before each instruction, for rows of which only some bits are live.

    If `and` keeps some bits, or a comparison with 0 tests the sign, the other bits are not live.
    """
    if "live bits" not in program.derived:
        program.derived["live bits"] = _Bits(program).find_live()
    found: list[Masks] = program.derived["live bits"]
    return found


class _Bits:
    def __init__(self, program: Program) -> None:
        self.program, self.code = program, program.code.tolist()
        written = {fields[2] for fields in self.code if OPERATIONS[NAMES[fields[0]]].result}
        self.constants = {
            row: value for row, _, value in program.constants
            if row not in written and isinstance(value, int) and not isinstance(value, bool)
        }  # fmt: skip
        self.rows = live_rows(program)
        decoder = plain_decoder(program)
        self.reads = [
            {row for step in decoder.steps(pc) for row in (*step.reads, *step.operands, step.address) if row > 0}
            | ({fields[1] >> 1} - {0})
            for pc, fields in enumerate(self.code)
        ]

    def find_live(self) -> list[Masks]:
        if not any(self._needs_few_bits(fields) for fields in self.code):
            return [{} for _ in self.code]
        live: list[Masks] = [{} for _ in self.code]
        """live bits before each instruction"""
        before: list[set[int]] = [set() for _ in self.code]
        for pc, fields in enumerate(self.code):
            for after in successors(pc, fields):
                if after < len(self.code):
                    before[after].add(pc)
        work, queued = list(range(len(self.code))), [True] * len(self.code)
        while work:
            pc = work.pop()
            queued[pc] = False
            now = self._before(pc, live)
            if now != live[pc]:
                live[pc] = now
                more = [at for at in before[pc] if not queued[at]]
                work += more
                for at in more:
                    queued[at] = True
        return [{row: bits for row, bits in at.items() if 0 < bits < _ALL} for at in live]

    def _before(self, pc: int, live: list[Masks]) -> Masks:
        fields = self.code[pc]
        later: Masks = {}
        for after in successors(pc, fields):
            for row, bits in live[after].items() if after < len(self.code) else ():
                later[row] = later.get(row, 0) | bits
        operation = OPERATIONS[NAMES[fields[0]]]
        if operation.kind != "alu" or (operation.result not in SIZE and operation.result != "p"):
            later.update(dict.fromkeys(self.reads[pc], _ALL))
            return self._live_before(pc, later)
        needed = later.get(fields[2], 0) if operation.result in SIZE else _ALL
        if not fields[1] and operation.result in SIZE:
            later.pop(fields[2], None)
        named = fields[3 : 3 + len(operation.operands)]
        for row in self.reads[pc] - set(named):
            later[row] = _ALL
        for n, row in enumerate(named):
            later[row] = later.get(row, 0) | self._operand(fields, n, needed)
        return self._live_before(pc, later)

    def _live_before(self, pc: int, later: Masks) -> Masks:
        return {row: later.get(row, 0) for row in self.rows[pc]}

    def _needs_few_bits(self, fields: list[int]) -> bool:
        """Return whether an instruction may need only some bits of an operand."""
        name = NAMES[fields[0]]
        return OPERATIONS[name].kind == "alu" and (name.startswith("and.b") or self._sign(fields))

    def _sign(self, fields: list[int]) -> bool:
        """Return whether a comparison tests the sign of its first operand."""
        wanted = next((value for prefix, value in _SIGNS.items() if NAMES[fields[0]].startswith(prefix)), None)
        return wanted is not None and self._constant(fields[4], NAMES[fields[0]]) == wanted

    def _constant(self, row: int, name: str) -> int | None:
        """Return the constant value of a row, as a signed number; None if it has none."""
        value = self.constants.get(row)
        bits = 64 if name.endswith("64") else 32
        return None if value is None else (value & (1 << bits) - 1) - (value >> bits - 1 & 1) * (1 << bits)

    def _operand(self, fields: list[int], n: int, needed: int) -> int:
        """Return the live bits of an operand, if `needed` are the live bits of the result."""
        name, beside = NAMES[fields[0]], self._constant(fields[4 - n], NAMES[fields[0]]) if n < 2 else None
        if n == 0 and self._sign(fields):
            return 1 << (63 if name.endswith("64") else 31)
        if name.startswith("mov.b"):
            return needed
        if name.startswith("and.b"):
            return needed if beside is None else needed & beside & _ALL
        if name.startswith(("or.b", "xor.b")):
            return needed
        return _ALL
