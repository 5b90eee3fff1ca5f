"""Registers that may be read before anything was written to them.

The assembler takes a register that is assigned once for a value: it may read another register in its place, or put
others into its row where it is not needed.  That holds where the assignment comes before every use, which PTX does not
promise.  Such registers start as 0 here, so that they are assigned more than once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.frontend.flow import Liveness, reachable
from wsemu.frontend.graph import Instruction
from wsemu.frontend.simplify import assignments, fixed_registers

if TYPE_CHECKING:
    from wsemu.frontend.graph import Graph


def define_all(graph: Graph) -> None:
    """Give registers that may be undefined where they are read a first value."""
    blocks = {block.index: block for block in graph.blocks}
    kept = reachable(blocks)
    running = [block for block in graph.blocks if block.index in kept]
    reassigned = {register for register, count in assignments(running).items() if count > 1}
    undefined = Liveness(running, fixed_registers(graph), reassigned).before(0)
    graph.blocks[0].instructions[:0] = [
        Instruction(
            "mov.pred" if graph.types[register] == "p" else f"mov.{graph.types[register]}",
            (register,),
            (graph.constant(graph.types[register], 0),),
        )
        for register in undefined
    ]
