"""Programs in which several instructions replace one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.model.control_flow import BRA, JUMPS, TRAP
from wsemu.model.data import replace
from wsemu.model.isa import OPCODE

if TYPE_CHECKING:
    from wsemu.model.program import Program

_TABLES = ("span_of", "stack_of", "array_of", "element_of")
Fields = list[int]


def make_instruction(name: str, guard: int, to: int, *operands: int, immediate: int = 0, auxiliary: int = 0) -> Fields:
    """Return an instruction with up to three operands."""
    return [OPCODE[name], guard, to, *(*operands, 0, 0, 0)[:3], immediate, auxiliary]


def replace_instructions(program: Program, made: dict[int, list[Fields]], **changes: Any) -> Program:
    """Return a program in which other instructions replace some; `changes` are new values of other fields."""
    before = program.code.tolist()
    starts = [0]
    for pc in range(len(before)):
        starts.append(starts[-1] + len(made.get(pc, [[]])))
    code: list[Fields] = []
    origin: list[int] = []
    for pc, fields in enumerate(before):
        for one in made.get(pc, [fields]):
            moved = [*one]
            if one[0] in JUMPS:
                moved[6] = starts[one[6]]
            if one[0] == BRA and one[5] >= 0:
                moved[5] = starts[one[5]]
            code.append(moved)
            origin.append(pc)
    tables: dict[str, Any] = {n: [table[pc] for pc in origin] for n in _TABLES if (table := getattr(program, n))}
    return replace(program, code=np.array(code, np.int64), **tables, **changes)


def append_trap(program: Program, auxiliary: int) -> Program:
    """Return a program with a new `trap` as its last instruction, which no jump targets yet."""
    trap = [TRAP, 0, 0, 0, 0, 0, len(program.traps), auxiliary]
    tables: dict[str, Any] = {n: [*table, table[-1]] for n in _TABLES if (table := getattr(program, n))}
    return replace(
        program, code=np.array([*program.code.tolist(), trap], np.int64), traps=[*program.traps, ""], **tables
    )
