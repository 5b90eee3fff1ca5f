"""Memory that a generic address can refer to, by its inputs: variables and arrays, or numbers alone.

A GPU has some memory at some numbers, and PTX does not say which.  An address computed from constants, special
registers and numbers of the launch does not refer to any variable.  One computed from the addresses of arrays does not
refer to shared memory, whatever their distance here.  An address from memory may be any.  A constant as large as the
address of an allocation of a device memory may be one: compilers at run time put addresses into code.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import PurePath
from typing import TYPE_CHECKING

from wsemu.frontend.ptx.memory import FORBIDDEN
from wsemu.model.isa import (
    ANYWHERE,
    FIRST_ARRAY,
    FORBIDS_SHIFT,
    IN_ARRAY,
    IN_CONSTANT,
    IN_LOCAL,
    IN_SHARED,
    OPERATIONS,
    SEGMENT_SHIFT,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from wsemu.frontend.assemble.graph import Graph, Instruction, Register
    from wsemu.frontend.ptx.module import Kind

_BASES = {"shared": IN_SHARED, "dynamic": IN_SHARED, "local": IN_LOCAL}
"""special values that are addresses"""
_LAST_SEGMENT = 127
"""number of the last segment of addresses of 47 bits"""
_STEPS = frozenset({"mov.b64", "add.b64", "selp.b64"})
"""operations whose result may be in the array that a constant is the address of"""
_SHARES = "an address of local memory is stored where another warp may load it, to which it means its own memory"
_ACCESSES = ("load", "store", "atomic")
_ANY_SPACE = frozenset({0, FORBIDDEN["global"]})
"""kinds that are excluded for a generic address, or for one of global memory"""


def forbid_by_origin(graph: Graph, kinds: Sequence[Kind], windowed: Iterable[Register]) -> None:
    """Forbid the memory to each access that its address cannot lead to.

    `windowed` are registers with generic addresses made of offsets in shared memory.
    """
    held = _origins(graph, kinds, windowed)
    places: dict[str, None] = {}
    loads = False
    for block in graph.blocks:
        for instruction in block.instructions:
            operation = OPERATIONS.get(instruction.operation)
            if operation is None or operation.kind not in _ACCESSES:
                continue
            if _shares_local(instruction, held):
                span = graph.spans[instruction.span]
                places[f"line {span.line} of {PurePath(span.file).name}"] = None
            if instruction.auxiliary >> FORBIDS_SHIFT & ANYWHERE in _ANY_SPACE:
                forbidden = ANYWHERE & ~held.get(instruction.operands[0], 0)
                instruction.auxiliary |= forbidden << FORBIDS_SHIFT
            loads |= held.get(instruction.operands[0], 0) == ANYWHERE
    if loads:
        graph.shared_locals += [f"{_SHARES} ({place})" for place in places]


def _shares_local(instruction: Instruction, held: dict[Register, int]) -> bool:
    """Return whether a store puts an address of local memory where other warps may load it."""
    address, *values = instruction.operands
    if not any(held.get(value, 0) & IN_LOCAL and held[value] != ANYWHERE for value in values):
        return False
    reaches = held.get(address, 0) & ~(instruction.auxiliary >> FORBIDS_SHIFT)
    return not reaches & IN_LOCAL


def _origins(graph: Graph, kinds: Sequence[Kind], windowed: Iterable[Register]) -> dict[Register, int]:
    """Return the kinds of memory that each register may hold an address of."""
    leads: dict[Register, list[Register]] = defaultdict(list)
    held = _sources(graph, kinds)
    held.update(dict.fromkeys(windowed, IN_SHARED))
    literal = _literal_addresses(graph)
    held.update(dict.fromkeys(literal, IN_ARRAY | IN_CONSTANT))
    for block in graph.blocks:
        for phi in block.phis:
            for operand in phi.incoming.values():
                leads[operand].append(phi.result)
        for instruction in block.instructions:
            operation = OPERATIONS.get(instruction.operation)
            if operation is None or operation.kind != "alu":
                held.update(dict.fromkeys(instruction.results, ANYWHERE))
                continue
            for operand in instruction.operands:
                if operand not in literal or instruction.operation in _STEPS:
                    leads[operand].extend(instruction.results)
    pending = list(held)
    while pending:
        register = pending.pop()
        for result in leads.get(register, ()):
            kinds_ = held.get(result, 0) | held[register]
            if kinds_ != held.get(result, 0):
                held[result] = kinds_
                pending.append(result)
    return held


def _literal_addresses(graph: Graph) -> set[Register]:
    """Return the constants that may be addresses of allocations of a device memory."""
    return {
        register for (type_, value), register in graph.constants.items()
        if type_ == "b64" and isinstance(value, int) and FIRST_ARRAY <= value >> SEGMENT_SHIFT <= _LAST_SEGMENT
    }  # fmt: skip


def _sources(graph: Graph, kinds: Sequence[Kind]) -> dict[Register, int]:
    """Return the registers that hold addresses at the start."""
    found = {graph.specials[name]: kind for name, kind in _BASES.items() if name in graph.specials}
    found.update(dict.fromkeys(graph.constant_arrays, IN_ARRAY | IN_CONSTANT))
    for register, parameter in graph.parameters.items():
        if parameter.part != "bytes":
            found[register] = IN_ARRAY | IN_CONSTANT
        elif kinds[parameter.argument] != "number":
            found[register] = ANYWHERE
    return found
