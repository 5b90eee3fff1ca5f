"""The end of a kernel, once for each branch there: a thread that returns early is gone, and no thread waits for it.

Compilers let all paths share one `ret`, so that `if (i >= n) return;` is a branch to the end of the kernel.  If lanes
met there, those that have returned would be missed at the votes and barriers in between. ptxas makes each such branch
an `EXIT` under its predicate.  The sides of a branch that reach the end after other operations meet there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.model.data import replace

if TYPE_CHECKING:
    from wsemu.frontend.assemble.graph import Block, Graph


def part_ends(graph: Graph) -> None:
    """Give each branch to a block that does nothing but end the thread an end of its own."""
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
    """Map each block to the end of the kernel that it leads to without doing anything, or to None."""
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
