"""Determine the memory that a generic address can refer to, from the inputs of its computation.

PTX does not specify which numbers are addresses of which memory.  An address that is computed only from constants,
special registers and numbers of the launch refers to no variable.  An address that is computed from the addresses of
arrays does not refer to shared memory, however far apart the two are in the emulator.  An address loaded from memory
may refer to arrays, because the host or another launch may have stored it, and to what the kernel itself passes through
memory or between lanes.  A constant in the range of device allocations may be such an address, because run-time
compilers put addresses into code.
"""

from __future__ import annotations

import functools
import operator
from collections import defaultdict
from pathlib import PurePath
from typing import TYPE_CHECKING

from wsemu.frontend.ptx.memory import FORBIDDEN
from wsemu.frontend.ptx.provenance import list_descriptors, passed_operands
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
from wsemu.model.shared_operands import IN_SHARED_MEMORY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wsemu.frontend.assemble.graph import Graph, Instruction, Register
    from wsemu.frontend.ptx.module import Kind

BASES = {"shared": IN_SHARED, "dynamic": IN_SHARED, "local": IN_LOCAL}
"""special values that are addresses"""
_LAST_SEGMENT = 127
"""number of the last segment of 47-bit addresses"""
_STEPS = frozenset({"mov.b64", "add.b64", "selp.b64"})
"""operations whose result may be in the same array as the constant address from which it is computed"""
_SHARES = "an address of local memory is stored where another warp may load it, to which it means its own memory"
ACCESSES = ("load", "store", "atomic")
_ANY_SPACE = frozenset({0, FORBIDDEN["global"]})
"""excluded kinds of memory for a generic address, or for one of global memory"""
NEEDED = {FORBIDDEN["shared"]: IN_SHARED, FORBIDDEN["local"]: IN_LOCAL}
"""excluded kinds of memory -> the kind that the address must refer to"""
_LOADED = ANYWHERE + 1
"""flag of an address that is computed from results of loads, or of other operations than arithmetic"""
_LAST_MATRIX = (1 << 14) - 1
"""descriptor of a matrix at the last address that it can name, beyond shared memory"""
_TENSOR_VERSION = 1 << 46
"""field that all descriptors of `tcgen05` contain"""
HAVE_OFFSET = ("mbarrier.", "cp.async.")
"""start of the names of asynchronous operations whose `immediate` is added to the address"""


def forbid_by_origin(graph: Graph, kinds: Sequence[Kind]) -> None:
    """Forbid, for each access, the memory that its address cannot refer to."""
    local, held = _origins(graph, kinds)
    places: dict[str, None] = {}
    loads = False
    for block in graph.blocks:
        for instruction in block.instructions:
            operation = OPERATIONS.get(instruction.operation)
            if operation is None or operation.kind not in ACCESSES:
                _move_numbers(graph, instruction, held)
                continue
            if _shares_local(instruction, local, held):
                span = graph.spans[instruction.span]
                places[f"line {span.line} of {PurePath(span.file).name}"] = None
            reached = held.get(instruction.operands[0], 0)
            excluded = instruction.auxiliary >> FORBIDS_SHIFT & ANYWHERE
            if excluded in _ANY_SPACE:
                instruction.auxiliary |= (ANYWHERE & ~reached) << FORBIDS_SHIFT
            elif not reached & NEEDED.get(excluded, ANYWHERE):  # a GPU may reserve the bytes there
                instruction.auxiliary |= ANYWHERE << FORBIDS_SHIFT
            loads |= bool(reached & _LOADED)
    if loads:
        graph.shared_locals += [f"{_SHARES} ({place})" for place in places]


def _move_numbers(graph: Graph, instruction: Instruction, held: dict[Register, int]) -> None:
    """Move the shared memory of an asynchronous operation out of bounds if its address, or the descriptor of a matrix,
    is a number."""
    for number in IN_SHARED_MEMORY.get(instruction.operation, ()):
        reached = held.get(instruction.operands[number], 0)
        if not reached & IN_SHARED and (not reached or reached & _LOADED):
            replace_operand(instruction, number, graph.constant("b64", 0))
            if instruction.operation.startswith(HAVE_OFFSET):
                instruction.immediate = 0
    for number in list_descriptors(instruction):
        if not held.get(instruction.operands[number], 0) & IN_SHARED:
            replace_operand(instruction, number, graph.constant("b64", describe_outside(instruction)))


def describe_outside(instruction: Instruction) -> int:
    """Return the descriptor of a matrix beyond shared memory."""
    version = _TENSOR_VERSION if instruction.operation.startswith("tcgen05.") else 0
    return version | _LAST_MATRIX


def replace_operand(instruction: Instruction, number: int, register: Register) -> None:
    instruction.operands = (*instruction.operands[:number], register, *instruction.operands[number + 1 :])


def _shares_local(instruction: Instruction, local: dict[Register, int], held: dict[Register, int]) -> bool:
    """Return whether a store puts an address of local memory where other warps may load it."""
    address, *values = instruction.operands
    if local.keys().isdisjoint(values):
        return False
    reaches = held.get(address, 0) & ~(instruction.auxiliary >> FORBIDS_SHIFT)
    return not reaches & IN_LOCAL


def find_kinds(graph: Graph, kinds: Sequence[Kind]) -> dict[Register, int]:
    """Return the kinds of memory to which the address in each register may refer."""
    return _origins(graph, kinds)[1]


def _origins(graph: Graph, kinds: Sequence[Kind]) -> tuple[dict[Register, int], dict[Register, int]]:
    """Return the registers that are computed from addresses of local memory, and the kinds of memory to which the
    address in each register may refer."""
    leads: dict[Register, list[Register]] = defaultdict(list)
    own = _sources(graph, kinds)
    literal = _literal_addresses(graph)
    own.update(dict.fromkeys(literal, IN_ARRAY | IN_CONSTANT))
    passed: set[Register] = set()
    received: list[Register] = []
    for block in graph.blocks:
        for phi in block.phis:
            for operand in phi.incoming.values():
                leads[operand].append(phi.result)
        for instruction in block.instructions:
            operation = OPERATIONS.get(instruction.operation)
            if operation is None or operation.kind != "alu":
                received.extend(instruction.results)
                passed.update(passed_operands(instruction))
                continue
            for operand in instruction.operands:
                if operand not in literal or instruction.operation in _STEPS:
                    leads[operand].extend(instruction.results)
    _spread(own, leads, list(own))
    through = functools.reduce(operator.or_, (own.get(register, 0) for register in passed), 0)
    held = dict(own)
    for register in received:
        held[register] = held.get(register, 0) | through | IN_ARRAY | IN_CONSTANT | _LOADED
    _spread(held, leads, received)
    local = {register: kind for register, kind in _sources(graph, kinds).items() if kind == IN_LOCAL}
    _spread(local, leads, list(local))
    return local, held


def _spread(held: dict[Register, int], leads: dict[Register, list[Register]], pending: list[Register]) -> None:
    """Add the kinds of registers to those that are computed from them."""
    while pending:
        register = pending.pop()
        for result in leads.get(register, ()):
            kinds = held.get(result, 0) | held[register]
            if kinds != held.get(result, 0):
                held[result] = kinds
                pending.append(result)


def _literal_addresses(graph: Graph) -> set[Register]:
    """Return the constants that may be addresses of device allocations."""
    return {
        register for (type_, value), register in graph.constants.items()
        if type_ == "b64" and isinstance(value, int) and FIRST_ARRAY <= value >> SEGMENT_SHIFT <= _LAST_SEGMENT
    }  # fmt: skip


def _sources(graph: Graph, kinds: Sequence[Kind]) -> dict[Register, int]:
    """Return the registers that hold addresses at the start."""
    found = {graph.specials[name]: kind for name, kind in BASES.items() if name in graph.specials}
    found.update(dict.fromkeys(graph.constant_arrays, IN_ARRAY | IN_CONSTANT))
    for register, parameter in graph.parameters.items():
        if parameter.part != "bytes":
            found[register] = IN_ARRAY | IN_CONSTANT
        elif kinds[parameter.argument] != "number":
            found[register] = ANYWHERE
    return found
