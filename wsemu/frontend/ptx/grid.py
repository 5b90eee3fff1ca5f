"""Recognize the barrier of a cooperative grid in the code that nvcc generates for
`cooperative_groups::this_grid().sync()`.

One thread of each CTA adds to a counter in the grid's workspace, whose address the CUDA runtime leaves in `%envreg1`
and `%envreg2`.  It then reads the counter until bit 31 changes (cooperative_groups/details/sync.h).  Here, every atomic
add to the workspace is an arrive, and every read of it is a wait; any other access is an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.frontend.ptx.provenance import propagate_provenance
from wsemu.model.isa import AS_LOAD, OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wsemu.frontend.assemble.graph import Graph, Instruction, Register


def mark_grid_barriers(graph: Graph, workspace: Iterable[Register]) -> str:
    """Turn accesses to the grid's workspace into arrives and waits; return a description of any other access there, or
    an empty text."""
    held = propagate_provenance(graph, dict.fromkeys(workspace, 1))
    unknown = ""
    for block in graph.blocks:
        for instruction in block.instructions:
            kind = OPERATIONS[instruction.operation].kind if instruction.operation in OPERATIONS else ""
            if kind in ("load", "store", "atomic") and held.get(instruction.operands[0]):
                what = _meaning(instruction, kind)
                unknown = unknown or ("" if what else instruction.operation)
                if what:
                    instruction.operation, instruction.operands = what, ()
                    instruction.immediate = instruction.auxiliary = 0
                    instruction.array = instruction.element = None
    return unknown


def _meaning(instruction: Instruction, kind: str) -> str:
    """Return `grid.arrive`, `grid.wait`, or an empty text."""
    reads = instruction.operation == "ld.b32" or instruction.auxiliary & AS_LOAD
    if reads and instruction.operation.endswith("b32"):
        return "grid.wait"
    return "grid.arrive" if instruction.operation == "atom.add.b32" else ""
