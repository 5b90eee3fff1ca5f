"""Find the source file of a kernel.

Line information names the function with the `.entry`, which is often a template that only calls an object
(`cutlass::device_kernel`).  All code of such a kernel is inlined through one call, so the outermost calls that all code
shares are ignored.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from wsemu.frontend.ptx.syntax import Block, Location

if TYPE_CHECKING:
    from collections.abc import Iterator

Point = tuple[int, int, int]
"""number of a file, line and column, as in `.loc`"""
_MAX_WRAPPER_LINES = 4
"""maximum lines with code, besides the call, of a function that only calls another one"""


def find_own_file(body: Block) -> int | None:
    """Return the number of the file that has the statements of a function; None without line information."""
    chains = [*_chains(body)]
    while chains:
        own = {chain[0][1] for chain in chains if len(chain) == 1}
        calls = {chain[0] for chain in chains if len(chain) > 1}
        if len(calls) != 1 or len(own - {line for _, line, _ in calls}) > _MAX_WRAPPER_LINES:
            break
        chains = [chain[1:] for chain in chains if len(chain) > 1]
    return Counter(chain[0][0] for chain in chains).most_common(1)[0][0] if chains else None


def _chains(body: Block) -> Iterator[tuple[Point, ...]]:
    """Yield each `.loc` after the calls that it was inlined through, outermost first."""
    outer: dict[Point, Point | None] = {}
    for location in _locations(body):
        if not location.line:
            continue
        chain = [(location.file, location.line, location.column)]
        call = location.inlined_at
        outer[chain[0]] = call
        while call is not None and call not in chain:
            chain.append(call)
            call = outer.get(call)
        yield tuple(reversed(chain))


def _locations(body: Block) -> Iterator[Location]:
    for statement in body.statements:
        if type(statement) is Location:
            yield statement
        elif type(statement) is Block:
            yield from _locations(statement)
