"""Rows for registers.

Registers joined by phis and moves become one *web* if their live ranges do not overlap, so that most phis need no code.
Webs then get rows by a linear scan over their live ranges.  Each width has its own rows, because lanes are packed by
width: in a shared row, a masked write of one width would overwrite other lanes' bytes of another width.  Elements of a
vector access form a *group* of webs that lie in consecutive rows.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from wsemu.model.isa import ROW, SIZE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from wsemu.frontend.assemble.flow import Ranges
    from wsemu.frontend.assemble.graph import Block, Register

PREDICATE_SLOT = 4
"""size of a spilled predicate in bytes"""


def width(type_: str) -> int:
    """Return the bytes of a lane, which select the pool of a register; 0 for predicates."""
    return 0 if type_ == "p" else SIZE[type_]


class Webs:
    """Registers that share a row, by union-find; each web knows its live ranges."""

    def __init__(self, ranges: Ranges) -> None:
        self._parent: dict[Register, Register] = {}
        self.ranges = ranges

    def find(self, register: Register) -> Register:
        """Return the register that represents the web."""
        parent = self._parent
        root = register
        while root in parent:
            root = parent[root]
        while register != root:
            parent[register], register = root, parent[register]
        return root

    def join(self, a: Register, b: Register) -> bool:
        """Merge two webs if their live ranges do not overlap; return whether they are one web now."""
        a, b = self.find(a), self.find(b)
        if a == b:
            return True
        first, second = self.ranges.get(a), self.ranges.get(b)
        if first is None or second is None or _overlap(first, second):
            return False
        merged = sorted(first + second)
        stretches = [merged[0]]
        for start, stop in merged[1:]:
            if start <= stretches[-1][1]:
                stretches[-1] = (stretches[-1][0], stop)
            else:
                stretches.append((start, stop))
        self.ranges[a] = stretches
        del self.ranges[b]
        self._parent[b] = a
        return True


def _overlap(first: Sequence[tuple[int, int]], second: Sequence[tuple[int, int]]) -> bool:
    """Return whether two ordered lists of half-open stretches have a common position."""
    i = j = 0
    while i < len(first) and j < len(second):
        if first[i][1] <= second[j][0]:
            i += 1
        elif second[j][1] <= first[i][0]:
            j += 1
        else:
            return True
    return False


def coalesce(blocks: Sequence[Block], ranges: Ranges, reassigned: set[Register], alone: Register) -> Webs:
    """Join phi results with their operands, values carried around a loop first, then moves of reassigned registers.

    Registers with a number of at least `alone` were created for a vector access, and are not joined.
    """
    webs = Webs(ranges)
    place = {block.index: at for at, block in enumerate(blocks)}
    for carried in (True, False):
        for at, block in enumerate(blocks):
            for phi in block.phis:
                for source, register in phi.incoming.items():
                    if (place[source] >= at) == carried:
                        webs.join(phi.result, register)
    if reassigned:
        for block in blocks:
            for instruction in block.instructions:
                if instruction.operation.startswith("mov.") and not instruction.guard:
                    result, source = instruction.results[0], instruction.operands[0]
                    if result < alone and source < alone:
                        webs.join(result, source)
    return webs


class Groups:
    """Webs that need consecutive rows, in order."""

    def __init__(self) -> None:
        self.members: list[tuple[Register, ...]] = []
        self.of: dict[Register, int] = {}
        """group that each web belongs to"""

    def add(self, webs: Sequence[Register]) -> bool:
        """Require consecutive rows for these webs; return False if one of the webs already has other neighbors."""
        wanted = tuple(webs)
        known = self.of.get(wanted[0])
        if known is not None:
            members = self.members[known]
            at = members.index(wanted[0])
            return members[at : at + len(wanted)] == wanted
        if len(set(wanted)) < len(wanted) or any(web in self.of for web in wanted):
            return False
        for web in wanted:
            self.of[web] = len(self.members)
        self.members.append(wanted)
        return True


class _Pool:
    """The rows of one width, as slots 0, 1, ...; a slot becomes free when the live range of its web ends."""

    def __init__(self) -> None:
        self.places = 0
        self._free: list[int] = []
        self._busy: list[tuple[int, int]] = []

    def take(self, start: int, stops: Sequence[int]) -> int:
        """Return the first of len(stops) neighboring slots, free from `start` on; slot k is held until stops[k]."""
        while self._busy and self._busy[0][0] <= start:
            heapq.heappush(self._free, heapq.heappop(self._busy)[1])
        first = self._single() if len(stops) == 1 else self._neighbours(len(stops))
        for k, stop in enumerate(stops):
            heapq.heappush(self._busy, (stop, first + k))
        return first

    def _single(self) -> int:
        if self._free:
            return heapq.heappop(self._free)
        self.places += 1
        return self.places - 1

    def _neighbours(self, count: int) -> int:
        """Return the lowest run of free slots, extended at the end of the pool if need be."""
        free = sorted(self._free)
        run = 0
        for k, place in enumerate(free):
            run = run + 1 if k and free[k - 1] == place - 1 else 1
            if run == count:
                return self._claim(free, place - count + 1, count)
        tail = 0
        while tail < len(free) and free[-1 - tail] == self.places - 1 - tail:
            tail += 1
        first = self.places - tail
        self.places = first + count
        return self._claim(free, first, count)

    def _claim(self, free: list[int], first: int, count: int) -> int:
        self._free = [place for place in free if not first <= place < first + count]
        return first


def assign(webs: Webs, groups: Groups, types: Sequence[str]) -> tuple[dict[Register, int], dict[int, int]]:
    """Return slots by linear scan: (web -> slot in its pool, width -> number of slots).

    A web holds its slot from its first to its last position; gaps are not reused.  A group starts with its first
    member.
    """
    pools: dict[int, _Pool] = {}
    places: dict[Register, int] = {}
    starts = {web: stretches[0][0] for web, stretches in webs.ranges.items()}
    for web in sorted(starts, key=lambda web: (starts[web], web)):
        if web in places:
            continue
        pool = pools.setdefault(width(types[web]), _Pool())
        group = groups.of.get(web)
        members = (web,) if group is None else groups.members[group]
        first = pool.take(starts[web], [webs.ranges[member][-1][1] for member in members])
        for k, member in enumerate(members):
            places[member] = first + k
    return places, {size: pool.places for size, pool in pools.items()}


def parallel_copy(moves: Mapping[int, int], scratch: Iterable[int]) -> list[tuple[int, int]]:
    """Order the moves {target: source} so that every source is read before it is overwritten; cycles go through a
    scratch row.

    `scratch` yields a row when one is needed, at most once.
    """
    pending = {target: source for target, source in moves.items() if target != source}
    readers: dict[int, int] = {}
    for source in pending.values():
        readers[source] = readers.get(source, 0) + 1
    ready = [target for target in pending if target not in readers]
    result: list[tuple[int, int]] = []
    spare: int | None = None
    while pending:
        while ready:
            target = ready.pop()
            source = pending.pop(target)
            result.append((target, source))
            readers[source] -= 1
            if not readers[source] and source in pending:
                ready.append(source)
        if pending:  # only cycles remain: free one target
            target = next(iter(pending))
            if spare is None:
                spare = next(iter(scratch))
            result.append((spare, target))
            for other, source in pending.items():
                if source == target:
                    pending[other] = spare
            readers[spare] = readers.pop(target)
            ready.append(target)
    return result


def row_bytes(places: int, size: int) -> int:
    """Return the bytes of a pool: predicates are packed into rows, every other register has its own row."""
    return places * ROW if size else -(-places * PREDICATE_SLOT // ROW) * ROW
