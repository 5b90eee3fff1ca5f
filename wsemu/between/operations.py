"""Data of a program between its launches: operations, their accesses, their source locations.

A *door* reports the actions of the host as calls of `Session`: Numba's host functions, a file with a sequence of
launches, a CUDA runtime.  All addresses belong to one address space.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from wsemu.model.data import NamedTuple, dataclass, field

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from wsemu.model.program import Span

Kind = Literal["read", "constant", "write", "atomic", "free", "allocate"]
"""`constant` is a load through the read-only cache; `free` ends and `allocate` begins the lifetime of the bytes"""
Part = Literal["", "before", "after"]
"""part of a launch with programmatic serialization: accesses before and after its thread waits for earlier launches"""
Clock = dict[int, int]
"""actor -> number of its operations that happen before"""


class Where(NamedTuple):
    """A source location on the host, or of a step in a file of launches."""

    file: str
    line: int
    column: int = 0
    """first column of the location, from 0"""
    end_line: int = 0
    end_column: int = 0


class Ranges:
    """Disjoint ranges of bytes in ascending order."""

    __slots__ = ("end", "ends", "first", "starts")

    def __init__(self, starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]) -> None:
        self.starts, self.ends = starts, ends
        self.first, self.end = int(starts[0]), int(ends[-1])

    @classmethod
    def single(cls, first: int, end: int) -> Ranges:
        """Return one range."""
        return cls(np.array([first], np.int64), np.array([end], np.int64))

    @property
    def dense(self) -> bool:
        """True if there is one range."""
        return len(self.starts) == 1

    def shift(self, by: int) -> Ranges:
        """Return the ranges at other addresses."""
        return Ranges(self.starts + by, self.ends + by)

    def common(self, other: Ranges) -> tuple[int, int] | None:
        """Return the first range of bytes that both have, or None."""
        if self.first >= other.end or other.first >= self.end:
            return None
        if self.dense and other.dense:
            return max(self.first, other.first), min(self.end, other.end)
        few, many = (self, other) if len(self.starts) <= len(other.starts) else (other, self)
        at = np.searchsorted(many.ends, few.starts, "right")
        inside = at < len(many.starts)
        meets = np.flatnonzero(inside & (many.starts[np.minimum(at, len(many.starts) - 1)] < few.ends))
        if not len(meets):
            return None
        n = int(meets[0])
        return max(int(few.starts[n]), int(many.starts[at[n]])), min(int(few.ends[n]), int(many.ends[at[n]]))

    def without(self, other: Ranges) -> Ranges | None:
        """Return the ranges without those of another one, or None if nothing is left."""
        if self.first >= other.end or other.first >= self.end:
            return self
        edges = np.concatenate([self.starts, self.ends, other.starts, other.ends])
        sizes = [len(self.starts), len(self.ends), len(other.starts), len(other.ends)]
        steps = np.repeat([1, -1, -2, 2], sizes)
        order = np.argsort(edges, kind="stable")
        edges, depth = edges[order], np.cumsum(steps[order])
        kept = np.flatnonzero((depth[:-1] == 1) & (edges[1:] > edges[:-1]))
        return merge_ranges(edges[kept], edges[kept + 1]) if len(kept) else None

    def common_bytes(self, other: Ranges) -> int:
        """Return how many bytes both have."""
        if self.first >= other.end or other.first >= self.end:
            return 0
        edges = np.concatenate([self.starts, other.starts, self.ends, other.ends])
        steps = np.repeat([1, -1], [len(self.starts) + len(other.starts), len(self.ends) + len(other.ends)])
        order = np.lexsort((steps, edges))
        depth = np.cumsum(steps[order])[:-1]
        return int(np.diff(edges[order])[depth == 2].sum())


def merge_ranges(starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]) -> Ranges:
    """Return ranges in any order, with overlaps, as disjoint ones."""
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], np.maximum.accumulate(ends[order])
    begins = np.concatenate([[True], starts[1:] > ends[:-1]])
    last = np.concatenate([begins[1:], [True]])
    return Ranges(starts[begins], ends[last])


class Access(NamedTuple):
    """Bytes of one kind that an operation touches, or may touch."""

    kind: Kind
    ranges: Ranges
    part: Part = ""
    exact: bool = True
    """False: some of these bytes, as `Operation.refine` determines"""
    at: Span | None = None
    """location of the instruction of a kernel"""
    visible: Literal["", "generic", "both"] = ""
    """proxies of dependent launches that see a write without a wait"""
    is_async: bool = False
    """True for the async proxy: copies of a kernel"""


@dataclass(slots=True)
class Operation:
    """An operation that the host issued to a stream, or performed itself."""

    number: int
    """position in the order in which the host issued all of them"""
    actor: int
    count: int
    """position among the operations of its actor, from 1"""
    clock: Clock
    does: str
    """`launch`, `copy`, `host`, `free`, ..."""
    name: str
    """text of a report: `launch of `scale``"""
    where: Where | None
    stream: str = ""
    """name of its stream; empty for the host"""
    graph: str = ""
    """name of the graph to which it belongs as a node"""
    refine: Callable[[], Sequence[Access] | None] | None = None
    """function that determines the exact accesses, or returns None if that is impossible; None: they are exact
    already"""
    early: frozenset[int] = frozenset()
    """numbers of earlier operations that may still run when this one begins (programmatic serialization)"""
    late: frozenset[int] = frozenset()
    """numbers of earlier operations that may still run after this operation waits for them"""
    pageable: bool = False
    """a copy from or to pageable memory, for which drivers guarantee more than CUDA does"""
    accesses: list[Access] = field(default_factory=list)
    key: object = None
    """equal for operations with the same accesses; None: unknown"""

    def precedes(self, clock: Clock) -> bool:
        """Return whether the operation happens before whatever has this clock."""
        return clock.get(self.actor, 0) >= self.count

    def precedes_part(self, later: Operation, part: Part) -> bool:
        """Return whether it happens before a part of a later operation."""
        if later.early and self.number in (later.late if part == "after" else later.early):
            return False
        return self.precedes(later.clock)


def join_clocks(clock: Clock, other: Clock) -> None:
    """Extend a clock by what another one contains."""
    for actor, count in other.items():
        if clock.get(actor, 0) < count:
            clock[actor] = count
