"""State of the reference interpreter: a warp, its groups of lanes, and memory."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from wsemu.model.data import dataclass, field
from wsemu.model.isa import LANES

if TYPE_CHECKING:
    from collections.abc import Iterator


@functools.lru_cache(maxsize=4096)
def list_lanes(mask: int) -> tuple[int, ...]:
    """Return the lanes of a mask, lowest first."""
    return tuple(lane for lane in range(LANES) if mask >> lane & 1)


@dataclass(slots=True)
class Region:
    """Lanes that diverged at a branch and reconverge at instruction `join`; `lanes` are all of them, `waiting` those at
    the join."""

    join: int
    lanes: int
    outer: Region | None
    number: int
    waiting: int = 0


@dataclass(slots=True)
class Group:
    """Lanes that execute together."""

    pc: int
    lanes: int
    region: Region | None
    midway: bool = False
    """true if the lanes continue in the middle of a straight-line stretch of code"""
    since: int = 0
    """number of regions that the warp had opened when the lanes became ready"""


def chain(region: Region | None) -> Iterator[Region]:
    """Yield a region and the regions around it."""
    while region is not None:
        yield region
        region = region.outer


def merge_groups(groups: list[Group]) -> list[Group]:
    """Merge groups that continue at the same instruction of the same region."""
    found: list[Group] = []
    for group in groups:
        same = next((g for g in found if g.pc == group.pc and g.region is group.region), None)
        if same:
            same.lanes |= group.lanes
        else:
            found.append(group)
    return found


@dataclass(slots=True)
class Segment:
    """A range of memory; `written` has a nonzero byte for each initialized byte, or is None if all bytes are
    initialized."""

    data: bytearray | memoryview
    writable: bool = True
    written: bytearray | None = None
    undefined: dict[int, int] = field(default_factory=dict)
    """offset of a byte with an undefined value -> its entry in `Undefined`"""


@dataclass(slots=True)
class Warp:
    """One warp.  Groups in `ready` run, starting with the last one; groups in `parked` wait at an operation."""

    number: int
    alive: int
    registers: dict[int, list[int]]
    predicates: dict[int, int]
    local: Segment
    ready: list[Group] = field(default_factory=list)
    parked: list[Group] = field(default_factory=list)
    waits: int = -1
    """the barrier at which the warp is counted, or -1"""
    wait_pc: int = -1
    wait_lanes: int = 0
    last_pc: int = -1
    regions: int = 0
    """number of regions opened so far"""
    whole: int = 0
    """all lanes of the warp, including exited ones"""
    undefined: dict[int, list[int]] = field(default_factory=dict)
    """register or predicate with undefined bits -> the entry of each lane in `Undefined`"""

    def __post_init__(self) -> None:
        self.whole = self.alive

    def make_ready(self, groups: list[Group]) -> None:
        """Make groups ready, with the first one to run first; groups at the same instruction of the same region are
        merged."""
        for group in reversed(merge_groups(groups)):
            group.since = self.regions
            self.ready.append(group)
