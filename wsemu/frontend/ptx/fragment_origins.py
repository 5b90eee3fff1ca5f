"""Compare the operands of `wmma.mma` and `wmma.store` with the instructions that produce them.

A multiplication must name the layout, shape and type with which its operands were loaded.  A store must name the shape
of the multiplication (PTX ISA, "wmma.mma", "wmma.store").  Here fragments have the layout of `mma.sync`, so the values
do not show a mistake.

Detects: operands that were loaded or computed with other qualifiers, on every path, in registers.  The launch is not
proven if it is so on some paths only, or after arithmetic with several elements.  A number
that depends on more than two elements, such as their sum, may fill a fragment or scale all its elements
(`fragment_factors.py`).  Does not detect: fragments that went through memory or other lanes; a mistake in the matrix
(`a` instead of `b`) after arithmetic with the elements.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from wsemu.frontend.assemble.graph import TRUE
from wsemu.frontend.ptx.fragment_factors import MIN_ELEMENTS, UNKNOWN, Factors, is_arithmetic, solve_forward
from wsemu.frontend.ptx.stops import insert_stop
from wsemu.model.program import UNDEFINED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wsemu.frontend.assemble.graph import Block, Graph, Instruction, Register


_SEVERAL = frozenset(range(MIN_ELEMENTS))
"""elements of a value that depends on more than two: a conversion packs two into one register"""


class Origin(NamedTuple):
    """The qualifiers of the instruction that produced a fragment."""

    matrix: str
    shape: str
    layout: str = ""
    """layout of `a` or `b`: row or col"""
    type: str = ""
    """type of the elements; empty for a store, which may name another one"""
    whole: bool = True
    """false after arithmetic with the elements"""
    elements: frozenset[int] = frozenset()
    """the registers of the fragment on which the value depends"""

    def matches(self, other: Origin) -> bool:
        """Return whether an instruction with the qualifiers `other` may use the fragment."""
        if self.matrix != other.matrix:
            return not self.whole
        types = not (self.type and other.type) or self.type == other.type
        return self.shape == other.shape and self.layout == other.layout and types

    def __str__(self) -> str:
        return ".".join(filter(None, (self.matrix, self.layout, self.shape, self.type)))


class Use(NamedTuple):
    """A multiplication or a store of fragments."""

    instruction: Instruction
    """first operation that reads them"""
    operands: tuple[tuple[tuple[Register, ...], Origin], ...]
    """the registers of each fragment, and the qualifiers that it needs"""
    text: str
    place: str


_State = dict["Register", frozenset["Origin | None"]]
"""register -> the possible origins of its value, None for another value; registers without an origin are missing"""


def check_fragments(graph: Graph, made: Mapping[Register, Origin], uses: Sequence[Use]) -> None:
    """End the run before uses of fragments with the wrong origin.  `made` are the registers that hold results."""
    if not made or not uses:
        return
    by_instruction = {id(use.instruction): use for use in uses}
    read = {number: [r for registers, _ in use.operands for r in registers] for number, use in by_instruction.items()}
    factors = Factors(graph, made, read)
    for block, state in solve_forward(graph, lambda state, instruction: _step(state, instruction, made)):
        for number, instruction in enumerate(block.instructions):
            use = by_instruction.get(id(instruction))
            if use is not None and _judge(graph, use, _drop_factors(use, state, made, factors), block, number):
                break
            _step(state, instruction, made)


def _step(state: _State, instruction: Instruction, made: Mapping[Register, Origin]) -> None:
    found: frozenset[Origin | None] = frozenset()
    if is_arithmetic(instruction):
        for operand in instruction.operands:
            found |= state.get(operand, frozenset())
        if not instruction.operation.startswith(("mov.", "selp.")):
            found = _combine(found)
    for register in instruction.results:
        origin = made.get(register)
        new = found if origin is None else frozenset({origin})
        if instruction.guard != TRUE:
            new |= state.get(register, UNKNOWN)
        if new - UNKNOWN:
            state[register] = new
        else:
            state.pop(register, None)


def _combine(origins: frozenset[Origin | None]) -> frozenset[Origin | None]:
    """Return the origins of a value that is computed from values with these origins."""
    elements: dict[Origin, frozenset[int]] = {}
    for origin in origins:
        if origin is not None:
            fragment = origin._replace(whole=False, elements=frozenset())
            elements[fragment] = elements.get(fragment, frozenset()) | origin.elements
    found = (
        fragment._replace(elements=numbers if len(numbers) < MIN_ELEMENTS else _SEVERAL)
        for fragment, numbers in elements.items()
    )
    return frozenset(found) | (origins & UNKNOWN)


def _drop_factors(use: Use, state: _State, made: Mapping[Register, Origin], factors: Factors) -> _State:
    """Return the origins of the registers that a use reads, without the fragments from which only numbers that fill or
    scale the operand are computed."""
    found = {}
    for registers, needed in use.operands:
        origins = frozenset().union(*(state.get(register, UNKNOWN) for register in registers))
        numbers = frozenset(
            origin for origin in origins - UNKNOWN
            if origin.elements == _SEVERAL and not origin.matches(needed)
            and factors.depend_on_numbers(id(use.instruction), registers, _list_registers(made, origin))
        )  # fmt: skip
        found.update({register: state.get(register, UNKNOWN) - numbers for register in registers})
    return found


def _list_registers(made: Mapping[Register, Origin], origin: Origin) -> set[Register]:
    """Return the registers of all fragments with these qualifiers."""
    own = origin._replace(whole=True, elements=frozenset())
    return {register for register, other in made.items() if other._replace(elements=frozenset()) == own}


def _judge(graph: Graph, use: Use, state: _State, block: Block, number: int) -> bool:
    """End the run before an instruction if one of its fragments has the wrong origin, and return whether it does."""
    for registers, needed in use.operands:
        for register in registers:
            origins = state.get(register, UNKNOWN)
            several = any(origin is not None and origin.elements == _SEVERAL for origin in origins)
            wrong = sorted(str(origin) for origin in origins if origin is not None and not origin.matches(needed))
            if wrong and len(wrong) == len(origins) and not several:
                code = block.instructions[number]
                insert_stop(graph, block, number, code.guard, _trap(graph, use, needed, wrong[0]), negated=code.negated)
                return True
            if wrong:
                graph.unmodelled.append(f"`{use.text}` may use a fragment of `{wrong[0]}` ({use.place})")
    return False


def _trap(graph: Graph, use: Use, needed: Origin, given: str) -> int:
    graph.traps.append(
        UNDEFINED
        + "\n".join(
            (
                f"`{use.text}` of a fragment that was made as `{given}`",
                "PTX: layout, shape and type must match those of the instruction that produces the fragment",
                f"make the fragment as `{needed}`",
            )
        )
    )
    return len(graph.traps) - 1
