"""Roles of warps, derived from the shared memory that they write and read.

A producer writes shared memory that another warp reads; a consumer reads shared memory that another warp wrote.  A warp
that does both is the middle of a pipeline.  Roles are given only if some warps only produce and others only consume:
the CTA is then warp-specialized.  Roles are derived from areas of 128 bytes, since a traced access has only the address
of its first lane.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

PRODUCER, CONSUMER = "producer", "consumer"
_AREA_SHIFT = 7


class SharedUses:
    """The areas of shared memory that each warp writes and reads."""

    def __init__(self) -> None:
        self._writers: defaultdict[int, set[int]] = defaultdict(set)
        """area -> warps that write to it"""
        self._readers: defaultdict[int, set[int]] = defaultdict(set)

    def enter(self, warp: int, address: int, size: int, *, writes: bool) -> None:
        """Record a write, or a read, of `size` bytes by a warp."""
        used = self._writers if writes else self._readers
        for area in range(address >> _AREA_SHIFT, ((address + max(size, 1) - 1) >> _AREA_SHIFT) + 1):
            used[area].add(warp)

    def roles(self, warps: Iterable[int]) -> dict[int, str]:
        """Return the role of each warp; empty if it has none.  No warp has a role unless some warp only produces and
        another only consumes."""
        producers, consumers = set[int](), set[int]()
        for area in self._writers.keys() & self._readers.keys():
            writers, readers = self._writers[area], self._readers[area]
            producers |= {warp for warp in writers if readers - {warp}}
            consumers |= {warp for warp in readers if writers - {warp}}
        found = {warp: _role(warp in producers, warp in consumers) for warp in warps}
        is_specialized = {PRODUCER, CONSUMER} <= {*found.values()}
        return found if is_specialized else dict.fromkeys(found, "")


def _role(produces: bool, consumes: bool) -> str:
    return " and ".join(name for name, applies in ((PRODUCER, produces), (CONSUMER, consumes)) if applies)
