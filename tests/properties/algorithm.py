"""The checkers' algorithm on abstract programs, as short as possible: one greedy run with vector clocks.

It helps to locate a bug: if the emulator's verdict is wrong and that of this algorithm is right, the implementation has
the bug; otherwise the algorithm has it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.properties.explorer import ALL_ARRIVE, ARRIVE, DEADLOCK, LANES, MISMATCH, RACE, WRITE, Operation, Program

RECYCLING = "barrier-recycling"


@dataclass
class Barrier:
    """A named barrier: its open generation, and the participants of the one before."""

    arrived: int = 0
    expected: int = 0
    clock: dict[int, int] = field(default_factory=dict)
    """the join of the participants' clocks: warp -> the last interval known to have ended"""
    waiting: list[int] = field(default_factory=list)
    taken_part: dict[int, int] = field(default_factory=dict)
    """warp -> the interval that its last operation in the open generation ended"""
    previous: dict[int, int] = field(default_factory=dict)
    """the same of the generation before"""


class Algorithm:
    """One run; `errors` are the codes that it found."""

    def __init__(self, program: Program) -> None:
        self.errors: set[str] = set()
        self.clocks: list[dict[int, int]] = [{} for _ in program]
        self.intervals = [1] * len(program)
        self.barriers: dict[int, Barrier] = {}
        self.accesses: dict[int, list[tuple[int, int, bool]]] = {}
        self.parked = [False] * len(program)
        rest = [list(warp) for warp in program]
        while ready := [w for w, operations in enumerate(rest) if operations and not self.parked[w]]:
            operation = rest[ready[0]].pop(0)
            if not operation.is_barrier:
                self.access(ready[0], operation)
            elif not self.take_part(ready[0], operation):
                self.errors.add(MISMATCH)
                return
        if any(self.parked):
            self.errors.add(DEADLOCK)

    def ended(self, warp: int, interval: int, by: int) -> bool:
        """Return whether what `warp` did in `interval` happens before what warp `by` does now."""
        return warp == by or self.clocks[by].get(warp, 0) >= interval

    def access(self, warp: int, operation: Operation) -> None:
        write = operation.kind == WRITE
        earlier = self.accesses.setdefault(operation.place, [])
        if any((write or other) and not self.ended(u, interval, warp) for u, interval, other in earlier):
            self.errors.add(RACE)
        earlier.append((warp, self.intervals[warp], write))

    def take_part(self, warp: int, operation: Operation) -> bool:
        """Count a warp into the open generation; return False if its count differs."""
        barrier = self.barriers.setdefault(operation.place, Barrier())
        if barrier.arrived and barrier.expected != operation.threads:
            return False
        if not all(self.ended(u, interval, warp) for u, interval in barrier.previous.items()):
            self.errors.add(RECYCLING)
        barrier.expected = operation.threads
        barrier.arrived += LANES
        barrier.taken_part[warp] = self.intervals[warp]
        join(barrier.clock, {**self.clocks[warp], warp: self.intervals[warp]})
        if operation.kind == ARRIVE:
            self.intervals[warp] += 1
        else:
            barrier.waiting.append(warp)
            self.parked[warp] = True
        if barrier.arrived == barrier.expected:
            self.complete(operation.place, barrier)
        return True

    def complete(self, place: int, barrier: Barrier) -> None:
        if not barrier.waiting:
            self.errors.add(ALL_ARRIVE)
        for warp in barrier.waiting:
            join(self.clocks[warp], barrier.clock)
            self.intervals[warp] += 1
            self.parked[warp] = False
        self.barriers[place] = Barrier(previous=barrier.taken_part)


def join(clock: dict[int, int], other: dict[int, int]) -> None:
    """Join the clock `other` into `clock`."""
    for warp, interval in other.items():
        clock[warp] = max(clock.get(warp, 0), interval)
