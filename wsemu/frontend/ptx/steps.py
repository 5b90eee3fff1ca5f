"""Arithmetic without effects, step by step: what an instruction of PTX is lowered to, and a compound one is made of."""

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
    """The operation that copies a register of a type, whatever its bits mean."""
    return "mov.pred" if type_ == "p" else f"mov.b{BITS[type_]}"


class Steps:
    """Appends pure operations to `code`, each with a fresh register for its result."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.code: list[Instruction] = []
        self.exact = 1
        """auxiliary of products and sums that must not be contracted: those that name a rounding, or are a part of
        something else (PTX ISA 9.7.3)"""
        self.about: str | None = None
        """label of the steps that follow, such as the array that they concern"""
        self.span = 0
        self.stack: tuple[int, ...] = ()
        """spans of the calls that led here"""

    def emit(self, operation: str, *operands: Register, immediate: int = 0) -> Register:
        """A fresh register with the result of a pure operation."""
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
        """The register of a constant, given by its bits; a negative integer by its value."""
        if type_ == "p":
            return self.graph.constant("p", bool(value))
        bits = BITS[type_]
        return self.graph.constant(f"b{bits}", value & ((1 << bits) - 1))
