"""Abstract barrier programs, and every interleaving of one.

A program has 2 to 4 warps; a warp is a list of operations, written as in `w0: A(1,64) R(0) | w1: S(1,64) W(0)`:
`S(b,n)` is bar.sync and `A(b,n)` bar.arrive on barrier b for n threads, `R(v)` and `W(v)` read and write variable v.

The hardware's semantics: an operation counts 32; a sync waits until its generation completes, an arrive goes on; a
generation completes when as many threads as its count have arrived, is reset at once, and releases its syncs; another
count in an open generation is an illegal instruction.  Arrivals that are left over at the end are harmless.

This file knows nothing of clocks and imports nothing of wsemu: it is what their verdicts are judged by.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations
from typing import Final, NamedTuple

LANES: Final = 32
"""what one operation counts"""
SYNC, ARRIVE, READ, WRITE = "SARW"
DEADLOCK, MISMATCH, ALL_ARRIVE = "deadlock", "count-mismatch", "all-arrive"
GENERATIONS, RACE = "generations", "race"
FAULTS: Final = (DEADLOCK, MISMATCH, ALL_ARRIVE, GENERATIONS, RACE)
"""what some interleaving can show; `generations`: two of them run one operation in different generations"""


class Operation(NamedTuple):
    """One step of a warp."""

    kind: str
    """SYNC, ARRIVE, READ or WRITE"""
    place: int
    """the barrier or the variable"""
    count: int = 0
    """in threads, of a barrier operation"""

    @property
    def is_barrier(self) -> bool:
        return self.kind in (SYNC, ARRIVE)


Program = tuple[tuple[Operation, ...], ...]
"""the operations of each warp"""
_OPERATION = re.compile(r"([SARW])\((\d+)(?:,(\d+))?\)")


def notation(program: Program) -> str:
    """The program in one line."""

    def text(operation: Operation) -> str:
        kind, place, count = operation
        return f"{kind}({place},{count})" if operation.is_barrier else f"{kind}({place})"

    return " | ".join(" ".join([f"w{w}:", *map(text, warp)]) for w, warp in enumerate(program))


def parse(line: str) -> Program:
    """The program that `notation` wrote."""
    return tuple(
        tuple(Operation(kind, int(place), int(count or 0)) for kind, place, count in _OPERATION.findall(warp))
        for warp in line.split("|")
    )


State = tuple[int, ...]
"""each warp's place, then generation, arrived and expected of each barrier.

A place is 2 x the barrier operations a warp has completed, plus 1 while it waits in the next one.
"""


class Explorer:
    """Visits every state that some interleaving of a program reaches.

    Reads and writes are no steps of their own.  They change no barrier and are never blocked, so a warp that stands
    between two barrier operations may stand before any of the accesses in between, whatever the others do: two
    accesses are adjacent in some interleaving if and only if their warps can be between those barrier operations at the
    same time.  All interleavings of the barrier operations are visited; states are memoised.
    """

    def __init__(self, program: Program) -> None:
        self.warps = len(program)
        self.steps = [[operation for operation in warp if operation.is_barrier] for warp in program]
        used = sorted({step.place for warp in self.steps for step in warp})
        self.start_of = {barrier: self.warps + 3 * k for k, barrier in enumerate(used)}
        self.ends = [2 * len(warp) for warp in self.steps]
        self.first: State = (0,) * (self.warps + 3 * len(used))
        self.conflicts = self._conflicts(program)
        self.generation: dict[tuple[int, int], int] = {}
        """(warp, step) -> the generation it ran in when it was first met"""

    def _conflicts(self, program: Program) -> list[tuple[int, int, set[tuple[int, int]]]]:
        """(warp u, warp v, pairs of places at which their next accesses can conflict)."""
        blocks = [_blocks(warp) for warp in program]
        result = []
        for u, v in combinations(range(self.warps), 2):
            pairs = {
                (2 * i, 2 * j)
                for i, (reads, writes) in enumerate(blocks[u])
                for j, (other_reads, other_writes) in enumerate(blocks[v])
                if writes & (other_reads | other_writes) or reads & other_writes
            }
            if pairs:
                result.append((u, v, pairs))
        return result

    def faults(self) -> Iterator[str]:
        """What can go wrong, as it is met; a fault may be named more than once."""
        seen = {self.first}
        todo = [self.first]
        while todo:
            state = todo.pop()
            for u, v, pairs in self.conflicts:
                if (state[u], state[v]) in pairs:
                    yield RACE
            stuck = True
            for warp in range(self.warps):
                place = state[warp]
                if place & 1 or place == self.ends[warp]:
                    continue
                stuck = False
                following, fault = self._step(state, warp)
                if fault:
                    yield fault
                if following not in seen:
                    seen.add(following)
                    todo.append(following)
            if stuck and any(state[w] != self.ends[w] for w in range(self.warps)):
                yield DEADLOCK

    def _step(self, state: State, warp: int) -> tuple[State, str]:
        """The state after a warp's next barrier operation, and what went wrong; `state` itself when it cannot go on."""
        number = state[warp] >> 1
        kind, barrier, count = self.steps[warp][number]
        at = self.start_of[barrier]
        generation, arrived, expected = state[at : at + 3]
        if arrived and expected != count:
            return state, MISMATCH
        fault = GENERATIONS if self.generation.setdefault((warp, number), generation) != generation else ""
        after = list(state)
        after[warp] += 2 if kind == ARRIVE else 1
        arrived += LANES
        if arrived < count:
            after[at + 1 : at + 3] = arrived, count
            return tuple(after), fault
        after[at : at + 3] = generation + 1, 0, 0
        waiting = [w for w in range(self.warps) if after[w] & 1 and self.steps[w][after[w] >> 1].place == barrier]
        for w in waiting:
            after[w] += 1
        return tuple(after), fault if waiting else ALL_ARRIVE


def _blocks(warp: tuple[Operation, ...]) -> list[tuple[int, int]]:
    """(variables read, variables written), as bits, before each barrier operation of a warp and after the last."""
    blocks = [(0, 0)]
    for kind, place, _ in warp:
        reads, writes = blocks[-1]
        if kind == READ:
            blocks[-1] = reads | 1 << place, writes
        elif kind == WRITE:
            blocks[-1] = reads, writes | 1 << place
        else:
            blocks.append((0, 0))
    return blocks


def is_correct(program: Program) -> bool:
    """Whether no interleaving shows a fault.

    A generation that differs between two interleavings that have not ended yet is one that differs between complete
    ones, or one of them cannot be completed: either way the program is faulty, so the first fault met decides.
    """
    return next(Explorer(program).faults(), None) is None


def possible_faults(program: Program) -> set[str]:
    """All that can go wrong, each in some interleaving."""
    return set(Explorer(program).faults())
