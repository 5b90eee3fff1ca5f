"""The end of a kernel, once for each branch there: a thread that returns early is gone, and nobody waits for it.

Compilers let all ways share one `ret`, so that `if (i >= n) return;` is a branch to the end of the kernel.  If lanes
met there, those that have returned would be missed at the votes and barriers in between.  ptxas makes each such branch
an `EXIT` under its predicate.  The sides of a branch that come to the end having done something meet there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.model.data import replace

if TYPE_CHECKING:
    from wsemu.frontend.assemble.graph import Block, Graph


def part_ends(graph: Graph) -> None:
    """Give each branch to a block that does nothing but end the thread an end of its own."""
    blocks = {block.index: block for block in graph.blocks}
    ends = {index: _end(blocks, block) for index, block in blocks.items()}
    new = max(blocks) + 1
    for block in blocks.values():
        ways = list(block.successors)
        for n, way in enumerate(ways if len(ways) == 2 else ()):
            if end := ends[way]:
                graph.blocks.append(replace(end, index=new, instructions=[], phis=[]))
                ways[n] = new
                new += 1
                block.successors = (ways[0], ways[1])


def _end(blocks: dict[int, Block], block: Block) -> Block | None:
    """The end of the kernel that a block leads to without doing anything."""
    seen = set()
    while not block.instructions and block.index not in seen:
        if block.end == "exit":
            return block
        if block.end != "jump":
            return None
        seen.add(block.index)
        block = blocks[block.successors[0]]
    return None
