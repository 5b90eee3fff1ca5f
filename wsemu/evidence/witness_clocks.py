"""Clocks of the warps of a CTA, event by event."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from typing import TYPE_CHECKING

from wsemu.proof.happens_before import HappensBefore

if TYPE_CHECKING:
    from wsemu.model.outcome import Event


Knowledge = dict[int, int]
"""for each warp, the last of its intervals that is known to happen before a point in time"""


class Clocks:
    """The vector clocks of a CTA's warps at each of their operations, computed only as far as requested."""

    def __init__(self, events: list[Event], cta: int, order: HappensBefore) -> None:
        self._cta = cta
        self._order = order
        self._rest = (event for event in events if event.cta == cta)
        self._intervals: defaultdict[int, list[int]] = defaultdict(list)
        """intervals of each warp so far that have an operation, in order"""
        self._known: defaultdict[int, list[Knowledge]] = defaultdict(list)
        """clock of a warp in each of its intervals"""
        self._learns: set[int] = set()
        """warps whose last operation was a sync, or a wait for a phase: a warp learns about others only by these"""

    def of(self, warp: int, interval: int) -> Knowledge:
        """Return the clock of a warp in an interval, or at the warp's end if it has no such interval.  The entry for
        the warp itself may be wrong."""
        intervals = self._intervals[warp]
        while not intervals or intervals[-1] < interval:
            event = next(self._rest, None)
            if event is None:
                return self._current_clock(warp)
            self._apply(event)
        return self._known[warp][bisect_left(intervals, interval)]

    def knows(self, event: Event, warp: int) -> int:
        """Return the last interval of a warp that the warp of an operation had observed just before it."""
        return event.interval if event.warp == warp else self.of(event.warp, event.interval).get(warp, 0)

    def _apply(self, event: Event) -> None:
        warp, intervals = event.warp, self._intervals[event.warp]
        if event.kind not in ("complete", "phase") and (not intervals or intervals[-1] < event.interval):
            known = self._known[warp]
            known.append(self._current_clock(warp) if warp in self._learns or not known else known[-1])
            intervals.append(event.interval)
            self._learns.discard(warp)
        if event.kind in ("sync", "await"):
            self._learns.add(warp)
        self._order.apply(event)

    def _current_clock(self, warp: int) -> Knowledge:
        return {other: last for (_, other), last in self._order.clock((self._cta, warp)).items()}
