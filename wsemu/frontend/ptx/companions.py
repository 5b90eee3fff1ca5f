"""Compute properties of registers while the kernel runs: a companion of a register holds a property of its value."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from wsemu.frontend.assemble.graph import Instruction
from wsemu.model.addresses import LOOKED_UP

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from wsemu.frontend.assemble.graph import Graph, Register


def list_writers(graph: Graph) -> defaultdict[Register, list[Instruction]]:
    """Return the instructions that write each register."""
    writers: defaultdict[Register, list[Instruction]] = defaultdict(list)
    for block in graph.blocks:
        for code in block.instructions:
            for result in code.results:
                writers[result].append(code)
    return writers


def look_up(at: Instruction, operation: str, result: Register, *operands: Register) -> Instruction:
    """Return arithmetic at an instruction, whose result does not depend on where memory is located."""
    return Instruction(operation, (result,), operands, span=at.span, stack=at.stack, array=LOOKED_UP)


def under_guard(at: Instruction, operation: str, result: Register, *operands: Register) -> Instruction:
    """Return such arithmetic under the guard of an instruction."""
    made = look_up(at, operation, result, *operands)
    made.guard, made.negated = at.guard, at.negated
    return made


def insert_companions(
    graph: Graph, companions: Collection[Register], compute: Callable[[Instruction], Sequence[Instruction]]
) -> None:
    """Insert what computes companions of 32 bits: 0 at the start, and before each instruction what `compute` returns
    for it."""
    if not companions:
        return
    for block in graph.blocks:
        block.instructions[:] = [each for code in block.instructions for each in (*compute(code), code)]
    zero = graph.constant("b32", 0)
    graph.blocks[0].instructions[:0] = [
        Instruction("mov.b32", (companion,), (zero,), array=LOOKED_UP) for companion in companions
    ]
