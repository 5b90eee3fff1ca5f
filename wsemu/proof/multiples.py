"""Find known divisors of register values: they give the strides of indices, and thus which locations accesses share.

Within a basic block, the analysis follows definitions in order. At the start of a block, a register may hold the value
of any definition of its row. The time is therefore nearly linear in the number of instructions, even for nested loops.

Detects: the largest known divisor of each operand of a sum or product, valid for every execution. Does not detect:
factors that 32 bits lose when a product wraps and the factor is not a power of 2; factors of a register whose row holds
another register elsewhere.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from wsemu.model.isa import NAMES, OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from wsemu.model.program import Program
    from wsemu.proof.taint import Block

_MOST = 1 << 40
"""maximum divisor: a larger one cannot be a stride"""


def _power(number: int) -> int:
    """Return the largest power of 2 that divides a number; 0 for 0."""
    return number & -number


class Multiples:
    """The known divisors of the operands of executed arithmetic."""

    def __init__(self, program: Program, code: Sequence[Sequence[int]], blocks: Mapping[int, Block]) -> None:
        self._code = code
        self._constants = {row: abs(int(value)) for row, type_, value in program.constants if type_ in ("b32", "b64")}
        self._rows: dict[int, int] = {}
        """row -> divisor of the values of all its definitions so far, 0 before the first; rows without definitions are
        missing"""
        self._of: dict[int, tuple[int, ...]] = {}
        self._readers: dict[int, set[int]] = {}
        """row -> the blocks that read its value from before their start"""
        self._flow(blocks)

    def of(self, pc: int) -> tuple[int, ...]:
        """Return a divisor of each operand of an instruction."""
        return self._of.get(pc, (1, 1, 1, 1))

    def _flow(self, blocks: Mapping[int, Block]) -> None:
        self._rows = {row: 0 for block in blocks.values() for step in block.steps for row in step.writes}
        work = dict.fromkeys(blocks)
        while work:
            start = next(iter(work))
            del work[start]
            for row, given in self._run(start, blocks[start]):
                both = math.gcd(self._rows[row], given)
                if both != self._rows[row]:
                    self._rows[row] = both
                    work.update(dict.fromkeys(self._readers.get(row, ())))

    def _run(self, start: int, block: Block) -> Iterable[tuple[int, int]]:
        """Follow a block, and return pairs (row, divisor of its value at the end) for the rows that it defines."""
        state: dict[int, int] = {}

        def held_multiple(row: int) -> int:
            if row in self._constants:
                return self._constants[row]
            if row in state:
                return state[row]
            self._readers.setdefault(row, set()).add(start)
            return self._rows.get(row, 1)

        for step in block.steps:
            fields = self._code[step.pc]
            operation = OPERATIONS[NAMES[fields[0]]]
            found = 1
            if operation.kind == "alu" and all(
                type_[0] == "b" for type_ in (operation.result, *operation.operands[:2])
            ):
                rows = fields[3 : 3 + len(operation.operands)]
                operands = [held_multiple(row) for row in rows]
                self._of[step.pc] = tuple(operands)
                found = self._result(operation.name, rows, operands)
            for row in step.writes:
                new = math.gcd(found, held_multiple(row)) if step.guard else found
                state[row] = new if new <= _MOST else 1
        return state.items()

    def _result(self, name: str, rows: Sequence[int], operands: list[int]) -> int:
        match name.split(".")[0]:
            case "mov" | "cvt" | "neg":
                return operands[0]
            case "add" | "sub" | "min" | "max":
                return math.gcd(*operands)
            case "selp":
                return math.gcd(*operands[:2])
            case "mul" | "mulwide":
                return operands[0] * operands[1]
            case "mad" | "madwide":
                return math.gcd(operands[0] * operands[1], operands[2])
            case "shl":
                by = self._constants.get(rows[1], _MOST)
                return operands[0] << by if by < _MOST.bit_length() else 1
            case "and":
                powers = [_power(operand) for operand in operands]
                return 0 if 0 in powers else max(powers)
            case "or" | "xor":
                return math.gcd(*map(_power, operands))
        return 1
