"""Distinguish addresses that are relative to their state space from generic addresses.

The address of a variable of shared, local, constant or parameter memory is relative to its state space until `cvta`
makes a generic address of it.  Here the two are often the same number; on a GPU they differ.  So a generic access at a
relative address has undefined behavior, and so has an access that names a state space, at a generic address.  As a
number, a relative address differs between GPUs, and may be 0; a generic address of a variable is never 0 (PTX ISA,
"cvta", "Generic Addressing").

Detects: accesses whose address is computed from addresses of only one of the two forms.  Does not detect: accesses at
addresses from memory, or after a join of the two forms.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from wsemu.frontend.ptx.memory import FORBIDDEN
from wsemu.frontend.ptx.provenance import passed_operands
from wsemu.model.addresses import HALF_RELATIVE, RELATIVE, SAVED, WATCHED, WATCHED_GLOBAL
from wsemu.model.isa import ANYWHERE, FORBIDS_SHIFT, OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from wsemu.frontend.assemble.graph import Graph, Instruction, Register

_BASES = ("shared", "dynamic", "local")
"""special values from which the addresses of variables are computed"""
_ACCESSES = ("load", "store", "atomic")
_NAMED = frozenset(FORBIDDEN[space] for space in ("local", "const", "param"))
"""excluded memory of accesses that need a relative address; for shared memory, the two forms are different numbers"""
_Leads = dict["Register", list["Register"]]


def distinguish_relative(graph: Graph, generic: Collection[Register], relative: Collection[Register]) -> None:
    """Forbid all memory to accesses at addresses of the wrong form, and mark arithmetic with addresses that may be
    relative.  `generic` and `relative` are the results of `cvta` and of `cvta.to`, and the addresses of constants."""
    leads, passed, received = _read_flow(graph, generic)
    own = {*relative, *(graph.specials[name] for name in _BASES if name in graph.specials)}
    own.update(row for row, parameter in graph.parameters.items() if parameter.part == "memory")
    own = _spread(own, leads)
    held = own if own.isdisjoint(passed) else _spread(own.union(received), leads)
    converted = _spread({*generic, *_list_arrays(graph, relative)}, leads)
    others = _spread(received, leads)
    only_relative, only_generic = own - converted - others, converted - held - others
    for block in graph.blocks:
        for instruction in block.instructions:
            _forbid(instruction, only_relative, only_generic)
            _mark(instruction, held)


def _list_arrays(graph: Graph, relative: Collection[Register]) -> Iterator[Register]:
    """Yield the registers that may hold addresses of global memory, where both forms are one number."""
    yield from (row for row in graph.constant_arrays if row not in relative)
    for row, parameter in graph.parameters.items():
        if parameter.part != "memory" and graph.types[row] == "b64":
            yield row


def _read_flow(graph: Graph, generic: Collection[Register]) -> tuple[_Leads, set[Register], list[Register]]:
    """Return what is computed from each register, the registers that operations other than arithmetic read, and their
    results.  `generic` registers have no sources."""
    leads: _Leads = defaultdict(list)
    passed: set[Register] = set()
    received: list[Register] = []
    saved: dict[tuple[str, int], list[Instruction]] = defaultdict(list)
    for block in graph.blocks:
        for phi in block.phis:
            for operand in phi.incoming.values():
                leads[operand].append(phi.result)
        for instruction in block.instructions:
            operation = OPERATIONS.get(instruction.operation)
            if instruction.array is not None and instruction.array.startswith(SAVED):
                saved[instruction.array, instruction.immediate].append(instruction)
            elif operation is None or operation.kind != "alu":
                passed.update(passed_operands(instruction))
                received.extend(instruction.results)
            else:
                for operand in instruction.operands:
                    leads[operand].extend(result for result in instruction.results if result not in generic)
    for moves in saved.values():
        restored = [result for move in moves for result in move.results]
        for operand in (operand for move in moves for operand in move.operands[1:]):
            leads[operand].extend(restored)
    return leads, passed, received


def _spread(given: Iterable[Register], leads: _Leads) -> set[Register]:
    """Return some registers, and those that are computed from them."""
    held = set(given)
    pending = list(held)
    while pending:
        for result in leads.get(pending.pop(), ()):
            if result not in held:
                held.add(result)
                pending.append(result)
    return held


def _forbid(instruction: Instruction, relative: set[Register], generic: set[Register]) -> None:
    """Forbid all memory to an access whose address has the wrong form."""
    operation = OPERATIONS.get(instruction.operation)
    if operation is None or operation.kind not in _ACCESSES or instruction.array is not None:
        return
    excluded = instruction.auxiliary >> FORBIDS_SHIFT & ANYWHERE
    wrong = generic if excluded in _NAMED else relative if excluded == 0 else ()
    if instruction.operands[0] in wrong:
        instruction.auxiliary |= ANYWHERE << FORBIDS_SHIFT


def _mark(instruction: Instruction, held: set[Register]) -> None:
    """Mark a comparison or difference of addresses that may be relative."""
    if instruction.operation.startswith(("setp.", "sub.b64")) and instruction.array in (None, WATCHED, WATCHED_GLOBAL):
        count = sum(operand in held for operand in instruction.operands)
        if count:
            instruction.array = (instruction.array or "") + (RELATIVE if count > 1 else HALF_RELATIVE)
