"""Blocks of host and device memory, each with a log of its accesses.

A log has the accesses with which later ones may conflict.  An access replaces earlier accesses of the same kind that it
covers and that happen before it, because an operation after the new access is also after the old ones.
"""

from __future__ import annotations

import bisect
from typing import TYPE_CHECKING, Literal

from wsemu.between.operations import Ranges
from wsemu.model.data import NamedTuple, dataclass, field

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from wsemu.between.operations import Access, Operation

BlockKind = Literal["device", "pool", "pinned", "mapped", "managed", "pageable"]
"""`device`: cudaMalloc; `pool`: cudaMallocAsync; `mapped`: pinned memory that kernels access"""
MAX_INEXACT = 64
"""maximum accesses of one block whose exact bytes are not determined yet"""


class Entry(NamedTuple):
    """An access in a log."""

    operation: Operation
    access: Access


@dataclass(slots=True, eq=False)
class Block:
    """An allocation."""

    first: int
    end: int
    kind: BlockKind
    name: str = ""
    log: list[Entry] = field(default_factory=list)
    undefined: list[Entry] = field(default_factory=list)
    """copies of uninitialized bytes into this block, until the bytes are overwritten"""
    freed: Operation | None = None
    """the operation that freed it, or None"""

    @property
    def is_on_host(self) -> bool:
        """True if host code may access it."""
        return self.kind not in ("device", "pool")


class Blocks:
    """The blocks of a program, by address."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._blocks: list[Block] = []

    def __iter__(self) -> Iterator[Block]:
        return iter(self._blocks)

    def add(self, block: Block) -> Block:
        """Add a block, and remove older blocks at its addresses."""
        for other in [*self.overlapping(block.first, block.end)]:
            self.remove(other)
        at = bisect.bisect(self._starts, block.first)
        self._starts.insert(at, block.first)
        self._blocks.insert(at, block)
        return block

    def remove(self, block: Block) -> None:
        """Remove a block."""
        at = bisect.bisect_left(self._starts, block.first)
        if at < len(self._blocks) and self._blocks[at] is block:
            del self._starts[at], self._blocks[at]

    def find(self, address: int) -> Block | None:
        """Return the block that has the byte at an address."""
        at = bisect.bisect(self._starts, address) - 1
        return self._blocks[at] if at >= 0 and address < self._blocks[at].end else None

    def overlapping(self, first: int, end: int) -> Iterator[Block]:
        """Yield the blocks with bytes in `first` to `end`, exclusive."""
        at = max(bisect.bisect(self._starts, first) - 1, 0)
        while at < len(self._blocks) and self._blocks[at].first < end:
            if self._blocks[at].end > first:
                yield self._blocks[at]
            at += 1


_CHANGES = ("write", "atomic", "free", "allocate")
_READS = ("read", "constant")


def conflict(earlier: Access, later: Access) -> bool:
    """Return whether the order of two accesses to common bytes matters."""
    one, two = earlier.kind, later.kind
    if one in _READS:
        return two in _CHANGES
    if one == "atomic":
        return two != "atomic"
    return True


def covers(later: Entry, earlier: Entry) -> bool:
    """Return whether an access makes an earlier one in the same log redundant."""
    operation, access = later
    one, old = earlier
    if access.part or old.part or not one.precedes(operation.clock):
        return False
    if not access.exact or not old.exact:
        return one.key is not None and one.key == operation.key and old.kind == access.kind and (
            (old.ranges.first, old.ranges.end) == (access.ranges.first, access.ranges.end)
        )  # fmt: skip
    if not access.ranges.dense or old.ranges.first < access.ranges.first or old.ranges.end > access.ranges.end:
        return False
    return access.kind == "write" or access.kind == old.kind


def enter(block: Block, entry: Entry) -> None:
    """Add an access to the log of its block."""
    block.log = [one for one in block.log if not covers(entry, one)]
    block.log.append(entry)


def drop_operation(entries: Iterable[Entry], operation: Operation) -> list[Entry]:
    """Return the entries of other operations."""
    return [entry for entry in entries if entry.operation is not operation]


def clip_to_block(access: Access, block: Block) -> Access:
    """Return the part of an access in a block."""
    ranges = access.ranges
    if block.first <= ranges.first and ranges.end <= block.end:
        return access
    if ranges.dense:
        clipped = Ranges.single(max(ranges.first, block.first), min(ranges.end, block.end))
        return access._replace(ranges=clipped)
    inside = (ranges.ends > block.first) & (ranges.starts < block.end)
    starts, ends = ranges.starts[inside].clip(min=block.first), ranges.ends[inside].clip(max=block.end)
    return access._replace(ranges=Ranges(starts, ends))
