"""Numbers of which registers hold multiples: the strides of indices, and so the places that accesses may share.

Detects: the largest number known of which each operand of a sum or product is a multiple, in every execution.
Does not detect: factors that 32 bits lose where a product wraps and the factor is no power of 2.
"""

from __future__ import annotations

import heapq
import math
from typing import TYPE_CHECKING

from wsemu.model.isa import NAMES, OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wsemu.model.program import Program
    from wsemu.proof.taint import Block

_MOST = 1 << 40
"""a larger factor is no stride"""
_State = dict[int, int]
"""row -> what its value is a multiple of: 0 for a value of 0; rows of which nothing is known are left out"""


def _power(number: int) -> int:
    """Return the largest power of 2 that divides it; 0 for 0."""
    return number & -number


class Multiples:
    """What the operands of executed sums and products are multiples of."""

    def __init__(self, program: Program, code: Sequence[Sequence[int]], blocks: Mapping[int, Block]) -> None:
        self._code = code
        self._blocks = blocks
        self._constants = {row: abs(int(value)) for row, type_, value in program.constants if type_ in ("b32", "b64")}
        self._starts: dict[int, _State] = {0: {}}
        self._flow()
        self._of: dict[int, tuple[int, ...]] = {}
        for start, first in self._starts.items():
            self._run(start, dict(first), keeps=True)

    def of(self, pc: int) -> tuple[int, ...]:
        """Return what each operand of an instruction is a multiple of."""
        return self._of.get(pc, (1, 1, 1, 1))

    def _flow(self) -> None:
        heap, pending = [0], {0}
        while heap:
            start = heapq.heappop(heap)
            pending.discard(start)
            state = self._run(start, dict(self._starts[start]))
            for target in self._blocks[start].successors:
                if self._arrive(target, state) and target not in pending:
                    pending.add(target)
                    heapq.heappush(heap, target)

    def _arrive(self, target: int, state: _State) -> bool:
        """Keep what holds on all ways to a block; return whether that is less than before."""
        known = self._starts.get(target)
        if known is None:
            self._starts[target] = dict(state)
            return True
        both = {row: math.gcd(one, state[row]) for row, one in known.items() if row in state}
        self._starts[target] = {row: one for row, one in both.items() if one != 1}
        return self._starts[target] != known

    def _run(self, start: int, state: _State, *, keeps: bool = False) -> _State:
        for step in self._blocks[start].steps:
            fields = self._code[step.pc]
            operation = OPERATIONS[NAMES[fields[0]]]
            found = 1
            if operation.kind == "alu" and all(
                type_[0] == "b" for type_ in (operation.result, *operation.operands[:2])
            ):
                rows = fields[3 : 3 + len(operation.operands)]
                operands = [self._constants[row] if row in self._constants else state.get(row, 1) for row in rows]
                if keeps:
                    self._of[step.pc] = tuple(operands)
                found = self._result(operation.name, rows, operands)
            for row in step.writes:
                new = math.gcd(found, state.get(row, 1)) if step.guard else found
                if new == 1 or new > _MOST:
                    state.pop(row, None)
                else:
                    state[row] = new
        return state

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
