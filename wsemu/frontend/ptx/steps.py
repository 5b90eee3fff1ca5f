"""Emission of arithmetic without side effects, step by step, for lowered PTX instructions and compound operations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.frontend.assemble.compound import COMPOUND
from wsemu.frontend.assemble.graph import Instruction
from wsemu.model.isa import OPERATIONS, SIZE

if TYPE_CHECKING:
    from wsemu.frontend.assemble.graph import Graph, Register

RESULT = {**{name: operation.result for name, operation in OPERATIONS.items()}, **COMPOUND}
"""operation -> type of its result"""
BITS = {"p": 1, **{type_: 8 * size for type_, size in SIZE.items()}}
"""type of a register -> its bits"""


def move(type_: str) -> str:
    """Return the operation that copies a register of a type."""
    return "mov.pred" if type_ == "p" else f"mov.b{BITS[type_]}"


class Steps:
    """Appends pure operations to `code`, each with a fresh register for its result."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.code: list[Instruction] = []
        self.exact = 1
        """auxiliary of products and sums that must not be contracted: those with a rounding modifier, and parts of
        other instructions (PTX ISA 9.7.3)"""
        self.about: str | None = None
        """label of the following steps, such as the array that they concern"""
        self.span = 0
        self.stack: tuple[int, ...] = ()
        """spans of the calls that lead to the current code"""

    def emit(self, operation: str, *operands: Register, immediate: int = 0) -> Register:
        """Return a new register with the result of a pure operation."""
        result = self.graph.new(RESULT[operation])
        self.code.append(
            Instruction(
                operation,
                (result,),
                operands,
                immediate,
                self.exact,
                span=self.span,
                stack=self.stack,
                array=self.about,
            )
        )
        return result

    def constant(self, type_: str, value: int) -> Register:
        """Return the register of a constant, given by its bits; a negative integer by its value."""
        if type_ == "p":
            return self.graph.constant("p", bool(value))
        bits = BITS[type_]
        return self.graph.constant(f"b{bits}", value & ((1 << bits) - 1))
