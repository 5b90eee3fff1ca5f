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
    """The lanes of a mask, lowest first."""
    return tuple(lane for lane in range(LANES) if mask >> lane & 1)


@dataclass(slots=True)
class Region:
    """Lanes that parted at a branch and meet at instruction `join`; `lanes` are all of them, `waiting` those there."""

    join: int
    lanes: int
    outer: Region | None
    number: int
    waiting: int = 0


@dataclass(slots=True)
class Group:
    """Lanes that run together."""

    pc: int
    lanes: int
    region: Region | None
    midway: bool = False
    """the lanes continue in the middle of a stretch of code"""
    since: int = 0
    """regions of the warp that there had been when the lanes became ready"""


def chain(region: Region | None) -> Iterator[Region]:
    """A region and those around it."""
    while region is not None:
        yield region
        region = region.outer


def merge_groups(groups: list[Group]) -> list[Group]:
    """Groups that go on from one place in one region as one group."""
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
    """A stretch of memory; `written` has a nonzero byte for each byte that holds a value, None if all do."""

    data: bytearray | memoryview
    writable: bool = True
    written: bytearray | None = None
    undefined: dict[int, int] = field(default_factory=dict)
    """offset of a byte that holds an undefined value -> what `Undefined` keeps of it"""


@dataclass(slots=True)
class Warp:
    """One warp.  `ready` groups run, the last one first; `parked` ones stand at an operation that waits."""

    number: int
    alive: int
    registers: dict[int, list[int]]
    predicates: dict[int, int]
    local: Segment
    ready: list[Group] = field(default_factory=list)
    parked: list[Group] = field(default_factory=list)
    waits: int = -1
    """the barrier it is counted at, or -1"""
    wait_pc: int = -1
    wait_lanes: int = 0
    last_pc: int = -1
    regions: int = 0
    """number of regions so far"""
    whole: int = 0
    """the lanes that it has had"""
    undefined: dict[int, list[int]] = field(default_factory=dict)
    """register or predicate with undefined bits -> what `Undefined` keeps of each lane"""

    def __post_init__(self) -> None:
        self.whole = self.alive

    def make_ready(self, groups: list[Group]) -> None:
        """Make groups ready, the first one to run first; those at one instruction of one region together."""
        for group in reversed(merge_groups(groups)):
            group.since = self.regions
            self.ready.append(group)
