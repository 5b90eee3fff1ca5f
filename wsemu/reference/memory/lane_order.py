"""Order of accesses by lanes in the reference interpreter: between lanes of one warp (`intra-warp-race`), and between
lanes of different warps if each lane has its own clock.

Each byte has a list of accesses, each with the set of its lanes: the last plain write and all accesses after it.  A
plain write starts a new list.  A read by some lanes removes, from earlier reads, the lanes that one of the reading
lanes has observed: a thread that observes the new read has observed those earlier reads as well.  Atomics do the same
with earlier atomics of the same width.  All lanes of one access are judged against the same list, so lanes of one
access conflict only if they store different values.
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
    """An access and the lanes that performed it."""

    access: Access
    lanes: int


class Conflict(NamedTuple):
    """One lane of an access, and lanes of an earlier access that it has not observed."""

    lane: int
    address: int
    earlier: Access
    lanes: int


class LaneOrder:
    """The lanes that accessed each byte, and their conflicts."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._arrays: dict[int, tuple[Lanes, ...]] = {}
        self._shared: dict[int, tuple[Lanes, ...]] = {}

    def start_group(self) -> None:
        """Begin a group of CTAs: forget the accesses to shared memory."""
        self._shared = {}

    def touch(self, now: Access, lanes: int, address: int) -> list[Conflict]:
        """Judge an access of some lanes to the same bytes, and record it."""
        memory = self._shared if address >> SEGMENT_SHIFT == SHARED else self._arrays
        found: list[Conflict] = []
        old = new = None
        for byte in range(address, address + now.size):
            state = memory.get(byte, ())
            if state is not old:  # bytes with the same list are judged once
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
        """Return the list of a byte after an access."""
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
