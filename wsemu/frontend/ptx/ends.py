"""Give each branch to the end of a kernel its own copy of the end, so that a thread that returns early exits at once.

Compilers let all paths share one `ret`, so `if (i >= n) return;` becomes a branch to the end of the kernel.  If lanes
reconverged there, the lanes that returned would count as live and be missing at later votes and barriers. ptxas turns
each such branch into a predicated `EXIT`.  Lanes of a branch that reach the end after other operations still reconverge
there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.model.data import replace

if TYPE_CHECKING:
    from wsemu.frontend.assemble.graph import Block, Graph


def part_ends(graph: Graph) -> None:
    """Give each branch to a block that only ends the thread its own copy of the block."""
    blocks = {block.index: block for block in graph.blocks}
    ends = _ends(blocks)
    new = max(blocks) + 1
    for block in blocks.values():
        ways = list(block.successors)
        for n, way in enumerate(ways if len(ways) == 2 else ()):
            if end := ends[way]:
                graph.blocks.append(replace(end, index=new, instructions=[], phis=[]))
                ways[n] = new
                new += 1
                block.successors = (ways[0], ways[1])


def _ends(blocks: dict[int, Block]) -> dict[int, Block | None]:
    """Map each block to the end of the kernel if it leads there without any operation, otherwise to None."""
    ends: dict[int, Block | None] = {}
    for index in blocks:
        path = []
        while index not in ends:
            block = blocks[index]
            is_empty_jump = block.end == "jump" and not block.instructions
            ends[index] = block if block.end == "exit" and not block.instructions else None
            if is_empty_jump:
                path.append(index)
                index = block.successors[0]
        ends.update(dict.fromkeys(path, ends[index]))
    return ends
