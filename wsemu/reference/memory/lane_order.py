"""Lanes of one warp in the reference interpreter: `intra-warp-race`; and lanes of other warps, where each lane has a
clock of its own.

For each byte the accesses since the last plain write, that one included, each with the set of its lanes.  A plain write
empties the list.  A read takes the lanes out of earlier reads that are known to one of its own lanes, for whoever knows
the one knows the other; an atomic does so with atomics of its width.  Lanes of one access are judged against the same
list: what they do to each other is no conflict, unless they store different values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.model.data import NamedTuple
from wsemu.model.isa import SEGMENT_SHIFT, SHARED, WRITE
from wsemu.reference.state import list_lanes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wsemu.reference.memory.shadow import Access, Order


class Lanes(NamedTuple):
    """An access and the lanes that made it."""

    access: Access
    lanes: int


class Conflict(NamedTuple):
    """One lane of an access, and lanes of an earlier one that it does not come after."""

    lane: int
    address: int
    earlier: Access
    lanes: int


class LaneOrder:
    """The lanes that touched each byte, and their conflicts."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._arrays: dict[int, tuple[Lanes, ...]] = {}
        self._shared: dict[int, tuple[Lanes, ...]] = {}

    def start_group(self) -> None:
        """CTAs begin, with shared memories of their own."""
        self._shared = {}

    def touch(self, now: Access, lanes: int, address: int) -> list[Conflict]:
        """Judge and enter an access of some lanes to the same bytes."""
        memory = self._shared if address >> SEGMENT_SHIFT == SHARED else self._arrays
        found: list[Conflict] = []
        old = new = None
        for byte in range(address, address + now.size):
            state = memory.get(byte, ())
            if state is not old:  # bytes that went the same way are judged once
                found += self._judge(now, lanes, byte, state)
                old, new = state, self._add_access(now, lanes, state)
            assert new is not None
            memory[byte] = new
        return found

    def _judge(self, now: Access, lanes: int, byte: int, state: tuple[Lanes, ...]) -> Iterator[Conflict]:
        for earlier, before in state:
            judged = earlier.cta == now.cta and (earlier.warp == now.warp or self._order.has_lane_clocks(now.cta))
            if judged and earlier.conflicts(now):
                for lane in list_lanes(lanes):
                    unknown = self._unknown(earlier, before, now, lane)
                    if unknown:
                        yield Conflict(lane, byte, earlier, unknown)

    def _unknown(self, earlier: Access, before: int, now: Access, lane: int) -> int:
        """Return the lanes of an earlier access that a lane has not observed now."""
        known = self._order.lane_happens_before
        return sum(
            1 << other
            for other in list_lanes(before)
            if not known(earlier.actor, earlier.interval, other, now.actor, lane)
        )  # fmt: skip

    def _add_access(self, now: Access, lanes: int, state: tuple[Lanes, ...]) -> tuple[Lanes, ...]:
        """A byte after an access."""
        if now.kind == WRITE or not state:
            return (Lanes(now, lanes),)
        kept = []
        merged = lanes
        for earlier, before in state:
            left = before if earlier.cta == now.cta else 0
            if left and earlier.warp == now.warp and now.covers(earlier):
                for lane in list_lanes(lanes):
                    left &= self._unknown(earlier, left, now, lane)
            if earlier == now:  # the same instruction, in the same interval
                merged |= left
            elif left:
                kept.append(Lanes(earlier, left))
        return (*kept, Lanes(now, merged))
