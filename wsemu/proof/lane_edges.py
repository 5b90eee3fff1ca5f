"""Find reported races between lanes of one warp that atomics and fences of single lanes order, in a traced run.

The engines order lanes of a warp only by barriers and warp-wide operations.  This module determines the threads that
have observed one access, first its own lane, as `threads.py` does but without scopes.  A thread observes the access
through a barrier or a warp-wide operation.  It also does so through a fence and a strong write, followed by a strong
read of that location and a fence.  If the access is an atomic, a read of its result is enough.  The order holds for the
traced run only, and proves nothing for other schedules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.model.isa import (
    ACQUIRES,
    ADDRESS_WRAPPED,
    AS_STORE,
    ATOMIC,
    NAMES,
    NO_STORE,
    OPERATIONS,
    RELEASES,
    SEGMENT_SHIFT,
    SERVED,
    SHARED,
)
from wsemu.model.outcome import ALL_LANES, FENCES
from wsemu.proof.happens_before import epochs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from wsemu.model.outcome import Event, EventKind, RawFinding, Trace
    from wsemu.model.program import Program

Thread = tuple[int, int, int]
"""(CTA, warp, lane)"""
_ENDS: tuple[EventKind, ...] = ("arrive", "sync", "warp", "exit", *FENCES)


def strong(program: Program) -> frozenset[int]:
    """Return the strong accesses of a program, whose addresses a trace must contain."""
    return frozenset(pc for pc, op in enumerate(program.code[:, 0].tolist()) if OPERATIONS[NAMES[op]].kind == "atomic")


def list_acquires(program: Program) -> frozenset[int]:
    """Return the strong reads that are acquire operations: the bytecode has their fence as the next instruction.

    An acquire read itself, and all after it, is ordered after the release (PTX ISA, "Base causality order"); of a
    relaxed read with a fence, only what follows the fence is."""
    code = program.code.tolist()
    return frozenset(pc for pc in strong(program) if NAMES[code[pc + 1][0]] in FENCES and code[pc + 1][7] == ACQUIRES)


def lanes_ordered_by_atomics(trace: Trace, findings: Iterable[RawFinding], program: Program) -> list[RawFinding]:
    """Return the races within a warp whose first two lanes atomics and fences order, in the run of this trace.

    The trace has the addresses of all `strong` accesses. Races between lanes of one store are never returned.
    """
    asked = [raw for raw in findings if raw.code == "intra-warp-race" and raw.other_pc >= 0]
    return [raw for raw in asked if _Spread(program, raw).comes_to_know(trace)]


class _Spread:
    """The threads that have observed the earlier access of a race."""

    def __init__(self, program: Program, raw: RawFinding) -> None:
        self.code, self.raw = program.code.tolist(), raw
        self.strong, self.acquires = strong(program), list_acquires(program)
        (*actor, self.since), self.until = epochs(raw)
        self.first: Thread = (actor[0], actor[1], raw.detail["other_lane"])
        self.later: Thread = (raw.cta, raw.warp, (raw.lanes & -raw.lanes).bit_length() - 1)
        self.knows = {self.first}
        self.fenced: set[Thread] = set()
        """threads whose strong writes publish the access"""
        self.told: set[tuple[int, int]] = set()
        """locations that these threads have written"""
        self.left: set[tuple[int, int]] = set()
        """locations that hold a result of the access itself, if it is an atomic"""
        self.seen: set[Thread] = set()
        """threads that have read these locations, and observe the access after their next fence"""
        self.given: set[tuple[int, int]] = set()
        self.waiting: dict[tuple[int, int], list[Thread]] = {}
        """(CTA, barrier) -> the waiting threads"""
        self.rules: dict[EventKind, Callable[[Event], None]] = {
            "arrive": self.arrive, "sync": self.sync, "complete": self.complete, "warp": self.warp,
            **dict.fromkeys(FENCES, self.fence),
        }  # fmt: skip

    def comes_to_know(self, trace: Trace) -> bool:
        """Return whether the lane of the later access has observed the earlier one."""
        for event in trace.events:
            if event.kind in _ENDS and (event.cta, event.warp, event.interval) == self.until:
                if event.pc == self.raw.pc + 1 and self.raw.pc in self.acquires:
                    self.fence(event)
                break  # a lane observes nothing else within an interval of its warp
            if event.kind == "access":
                if event.pc in self.strong:
                    self.access(event, trace.lane_addresses(event))
            elif event.kind in self.rules and not self._ends_earlier(event):
                self.rules[event.kind](event)
        return self.later in self.knows

    def _ends_earlier(self, event: Event) -> bool:
        """Return whether an operation of the warp ends an interval before that of the access."""
        return (event.cta, event.warp) == self.first[:2] and event.kind in _ENDS and event.interval < self.since

    def _threads(self, event: Event, lanes: int) -> list[Thread]:
        lanes &= ALL_LANES
        return [(event.cta, event.warp, lane) for lane in range(lanes.bit_length()) if lanes >> lane & 1]

    def fence(self, event: Event) -> None:
        part = self.code[event.pc][7]
        there = set(self._threads(event, event.place))
        if part != RELEASES:
            self.knows |= there & self.seen
        if part != ACQUIRES:
            self.fenced |= there & self.knows

    def access(self, event: Event, addresses: dict[int, int]) -> None:
        """Process a strong access of some lanes, lane after lane."""
        auxiliary = self.code[event.pc][7]
        for lane, address in addresses.items():
            thread, bare = (event.cta, event.warp, lane), address & ~ADDRESS_WRAPPED
            place = (event.cta if bare >> SEGMENT_SHIFT == SHARED else -1), bare
            if auxiliary & SERVED != AS_STORE:
                self.seen |= {thread} if place in self.told else set()
                self.knows |= {thread} if place in self.left else set()
            else:  # a read of this store observes nothing before it
                self.told.discard(place)
                self.left.discard(place)
            if not auxiliary & NO_STORE:
                self.told |= {place} if thread in self.fenced else set()
                self.left |= {place} if self._is_it(event, thread, bare) else set()

    def _is_it(self, event: Event, thread: Thread, address: int) -> bool:
        """Return whether a strong access is the earlier access of the race."""
        raw = self.raw
        mine = raw.detail["other_kind"] == ATOMIC and address == raw.detail["address"]
        return mine and (event.pc, event.interval, thread) == (raw.other_pc, self.since, self.first)

    def warp(self, event: Event) -> None:
        there = set(self._threads(event, event.place))
        if there & self.knows:
            self.knows |= there

    def arrive(self, event: Event) -> None:
        if not self.knows.isdisjoint(self._threads(event, event.lanes)):
            self.given.add((event.cta, event.place))

    def sync(self, event: Event) -> None:
        self.arrive(event)
        self.waiting.setdefault((event.cta, event.place), []).extend(self._threads(event, event.lanes))

    def complete(self, event: Event) -> None:
        barrier = event.cta, event.place
        there = self.waiting.pop(barrier, [])
        if barrier in self.given:
            self.knows.update(there)
            self.given.discard(barrier)
