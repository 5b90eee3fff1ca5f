"""End the run before an instruction of a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.frontend.assemble.graph import TRUE, Block

if TYPE_CHECKING:
    from wsemu.frontend.assemble.graph import Graph, Register


def insert_stop(graph: Graph, block: Block, number: int, guard: Register, trap: int, *, negated: bool = False) -> None:
    """End the run before an instruction of a block, by a trap, in lanes for which a guard holds."""
    code = block.instructions
    span, stack = (code[number].span, code[number].stack) if number < len(code) else (block.span, block.stack)
    new = max(other.index for other in graph.blocks) + 1
    last = Block(new, end="trap", trap=trap, span=span, stack=stack)
    rest = Block(
        new + 1, instructions=code[number:], successors=block.successors, predicate=block.predicate, span=block.span,
        stack=block.stack, end=block.end, trap=block.trap, dead=block.dead,
    )  # fmt: skip
    block.instructions = code[:number]
    block.span, block.stack = span, stack
    if guard == TRUE:
        block.end, block.predicate, block.successors = "jump", TRUE, (last.index,)
    else:
        block.end, block.predicate = "bra", guard
        block.successors = (rest.index, last.index) if negated else (last.index, rest.index)
    graph.blocks.insert(graph.blocks.index(block) + 1, rest)
    graph.blocks.append(last)
