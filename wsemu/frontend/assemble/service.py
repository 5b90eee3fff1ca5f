"""Implementation of a kernel's atomics by the hardware, for their cost in shared memory.

The implementation depends on the compiler.  If the compiler can prove that all lanes have the same address, it combines
4-byte integer values inside the warp, and one lane adds the result.  It does so for any value if the result is unused,
otherwise only for a value that is equal in all lanes.  For an increment whose result is unused, it counts the lanes of
each word.  Both variants cost the same as a load of these words.  Source: the machine code that ptxas 13.0 makes for
sm_90.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.frontend.assemble.flow import EXIT, immediate_post_dominators
from wsemu.frontend.assemble.simplify import assignments, used_registers
from wsemu.model.data import replace
from wsemu.model.isa import (
    ANYWHERE,
    AS_LOAD,
    ATOMICS,
    FORBIDS_SHIFT,
    NO_STORE,
    OF_GPU,
    OPERATIONS,
    OWN_SHARED,
    SCOPES,
    SERVICE,
    UNCOUNTED,
)

if TYPE_CHECKING:
    from wsemu.frontend.assemble.graph import Graph, Instruction, Register
    from wsemu.frontend.assemble.simplify import Blocks

_COMBINED = {f"atom.{what}.b32" for what in ("add", "and", "or", "xor")} | {
    f"atom.{what}.{sign}32" for what in ("min", "max") for sign in "su"
}
_SAME_IN_A_WARP = ("ctaid", "nctaid", "ntid", "shared", "dynamic", "dynamic_bytes")
"""special registers whose values are equal in all lanes of a warp"""


_OF_PLACE = OWN_SHARED | SCOPES | OF_GPU | ANYWHERE << FORBIDS_SHIFT
"""bits of `aux` that specify the memory and the scope of an atomic"""
_NEUTRAL = {"add": (0,), "or": (0,), "xor": (0,), "and": (-1, 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF)}
"""integer operation -> the operands, 32 or 64 bits wide, with which it leaves a value unchanged"""


def mark_without_effect(graph: Graph, blocks: Blocks) -> None:
    """Mark in place, as storing nothing, each atomic that leaves memory unchanged, such as `atomicAdd(p, 0)`.

    Do nothing if strong accesses have narrow scopes: then the atomic is a write for threads outside of its scope.
    """
    if any(i.operation in ATOMICS and i.auxiliary & SCOPES for block in blocks.values() for i in block.instructions):
        return
    for block in blocks.values():
        for at, instruction in enumerate(block.instructions):
            if instruction.operation in ATOMICS and _changes_nothing(instruction, graph):
                auxiliary = instruction.auxiliary | NO_STORE
                block.instructions[at] = replace(instruction, auxiliary=auxiliary)


def _changes_nothing(instruction: Instruction, graph: Graph) -> bool:
    what, type_ = ATOMICS[instruction.operation]
    if what == "cas":
        return instruction.operands[1] == instruction.operands[2]
    width = int(type_[1:])
    neutral = (n for n in _NEUTRAL.get(what, ()) if n.bit_length() in (0, 1, width))
    return any(graph.constants.get((type_, n)) == instruction.operands[1] for n in neutral)


def choose_services(graph: Graph, blocks: Blocks) -> None:
    """Set the service (`isa.SERVED`) of each atomic that has none, in place."""
    if not any(i.operation in SERVICE for block in blocks.values() for i in block.instructions):
        return
    different, used = differing(graph, blocks), used_registers(blocks.values())
    one = graph.constants.get(("b32", 1))
    for block in blocks.values():
        for at, instruction in enumerate(block.instructions):
            if instruction.operation in SERVICE and not instruction.auxiliary & ~_OF_PLACE:
                service = _service(instruction, different, used.isdisjoint(instruction.results), one)
                block.instructions[at] = replace(instruction, auxiliary=instruction.auxiliary | service)


def _service(instruction: Instruction, different: set[Register], no_result: bool, one: Register | None) -> int:
    name, (address, value, *_) = instruction.operation, instruction.operands
    if name == "atom.add.b32" and value == one and no_result:
        return AS_LOAD
    if name in _COMBINED and address not in different:
        if no_result:
            return AS_LOAD
        if name == "atom.add.b32":  # for values that may differ, the code first tests whether they do
            return UNCOUNTED if value in different else AS_LOAD
    return SERVICE[name]


def differing(graph: Graph, blocks: Blocks) -> set[Register]:
    """Return the registers that may differ between lanes of a warp, as far as a compiler can determine."""
    found = {register for name, register in graph.specials.items() if name.split(".")[0] not in _SAME_IN_A_WARP}
    several = {register for register, count in assignments(blocks.values()).items() if count > 1}
    successors = {index: block.successors for index, block in blocks.items()}
    meets = immediate_post_dominators(successors)
    before = -1
    while len(found) != before:
        before = len(found)
        apart = _divergent_blocks(blocks, meets, found)
        for index, block in blocks.items():
            found.update(
                phi.result for phi in block.phis if index in apart or not found.isdisjoint(phi.incoming.values())
            )
            for instruction in block.instructions:
                if _differs(instruction, found):
                    found.update(instruction.results)
                elif index in apart:
                    found.update(several.intersection(instruction.results))
    return found


def _differs(instruction: Instruction, found: set[Register]) -> bool:
    kind = OPERATIONS[instruction.operation].kind
    if kind in ("alu", "load"):
        return not found.isdisjoint((*instruction.operands, instruction.guard))
    return not instruction.operation.startswith("vote.")


def _divergent_blocks(blocks: Blocks, meets: dict[int, int], found: set[Register]) -> set[int]:
    """Return the blocks that the lanes of a warp may reach on different paths, up to where the paths meet."""
    apart: set[int] = set()
    for index, block in blocks.items():
        if len(block.successors) == 2 and block.predicate in found:
            seen, pending = {EXIT}, list(block.successors)
            while pending:
                at = pending.pop()
                if at not in seen:
                    seen.add(at)
                    if at != meets[index]:
                        pending += blocks[at].successors
            apart |= seen
    return apart
