"""The end of variables in local memory with the inlined function that declares them.

An address of such a variable is invalid once the function has returned (PTX ISA, "Local State Space").  Usually no
address outlives its function: none is stored, and none reaches a register of the caller.  If one may, then the variable
has a word with its extent, like a variable on the stack.  The word is 0 after the return, and an access by one of the
addresses, which name the word, is out of bounds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from wsemu.frontend.assemble.graph import Instruction
from wsemu.frontend.ptx.module import variable_size
from wsemu.frontend.ptx.provenance import CARRIES, passed_operands, propagate_provenance
from wsemu.frontend.ptx.variables import ONLY_LOCAL
from wsemu.model.isa import LOCAL_SHIFT, ON_STACK, STACK_UNIT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wsemu.frontend.assemble.graph import Block, Graph, Register
    from wsemu.frontend.ptx.variables import LocalPlace


class Lifetime(NamedTuple):
    """An inlined call of a function with variables in local memory."""

    registers: range
    """the registers that were created for the function"""
    after: Block
    """the block in which the caller continues"""
    variables: list[LocalPlace]


def end_variables(graph: Graph, lifetimes: Sequence[Lifetime]) -> None:
    """End the variables whose addresses may outlive their functions where these functions return."""
    places = [(life, place) for life in lifetimes for place in life.variables if place.named and _has_room(place)]
    if not places:
        return
    given = {code.results[0]: 1 << n for n, (_, place) in enumerate(places) for code in place.named}
    left = _find_outliving(graph, propagate_provenance(graph, given), [life.registers for life, _ in places])
    for n, (life, place) in enumerate(places):
        if left >> n & 1:
            _end(graph, life, place)


def _has_room(place: LocalPlace) -> bool:
    """Return whether an address can name the variable by its offset."""
    return place.number > 0 and place.offset // STACK_UNIT < ON_STACK


def _find_outliving(graph: Graph, held: dict[Register, int], own: Sequence[range]) -> int:
    """Return the variables, as bits, whose addresses may be in memory or in a register of another function."""
    left = 0
    for register, bits in held.items():
        for n in _numbers(bits & ~left):
            left |= (register not in own[n]) << n
    for block in graph.blocks:
        for code in block.instructions:
            if code.operation in CARRIES:
                continue
            for operand in passed_operands(code):
                left |= held.get(operand, 0)
    return left


def _numbers(bits: int) -> list[int]:
    return [n for n in range(bits.bit_length()) if bits >> n & 1]


def _end(graph: Graph, life: Lifetime, place: LocalPlace) -> None:
    """Store the extent of a variable with each computation of its address, and 0 after the return."""
    unit = place.offset // STACK_UNIT
    extent = graph.constant("b64", unit << 32 | variable_size(place.variable))
    named = graph.constant("b64", place.offset + (ON_STACK + unit << LOCAL_SHIFT))
    at = {id(code) for code in place.named}
    for block in graph.blocks:
        for number in reversed(range(len(block.instructions))):
            code = block.instructions[number]
            if id(code) in at:
                code.operands = (code.operands[0], named)
                block.instructions.insert(number + 1, _store(graph, place, extent, code))
    life.after.instructions.insert(0, _store(graph, place, graph.constant("b64", 0), life.after))


def _store(graph: Graph, place: LocalPlace, value: Register, at: Instruction | Block) -> Instruction:
    base, before = graph.special("local"), place.offset - STACK_UNIT
    return Instruction("st.b64", (), (base, value), before, ONLY_LOCAL, span=at.span, stack=at.stack)
