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
"""number of threads for which one operation counts"""
SYNC, ARRIVE, READ, WRITE = "SARW"
DEADLOCK, MISMATCH, ALL_ARRIVE = "deadlock", "count-mismatch", "all-arrive"
GENERATIONS, RACE = "generations", "race"
FAULTS: Final = (DEADLOCK, MISMATCH, ALL_ARRIVE, GENERATIONS, RACE)
"""faults that some interleaving can show; `generations`: two interleavings run one operation in different
generations"""
ENDS: Final = frozenset({DEADLOCK, MISMATCH})
"""faults in which an interleaving can end early"""


class Operation(NamedTuple):
    """One step of a warp."""

    kind: str
    """SYNC, ARRIVE, READ or WRITE"""
    place: int
    """the barrier or the variable"""
    threads: int = 0
    """the count of a barrier operation"""

    @property
    def is_barrier(self) -> bool:
        return self.kind in (SYNC, ARRIVE)


Program = tuple[tuple[Operation, ...], ...]
"""the operations of each warp"""
_OPERATION = re.compile(r"([SARW])\((\d+)(?:,(\d+))?\)")


def notation(program: Program) -> str:
    """Return the program as one line."""

    def text(operation: Operation) -> str:
        kind, place, threads = operation
        return f"{kind}({place},{threads})" if operation.is_barrier else f"{kind}({place})"

    return " | ".join(" ".join([f"w{w}:", *map(text, warp)]) for w, warp in enumerate(program))


def parse(line: str) -> Program:
    """Return the program that `notation` wrote."""
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
        self.position = {barrier: self.warps + 3 * k for k, barrier in enumerate(used)}
        self.ends = [2 * len(warp) for warp in self.steps]
        self.start: State = (0,) * (self.warps + 3 * len(used))
        self.conflicts = self._conflicts(program)
        self.generation: dict[tuple[int, int], int] = {}
        """(warp, step) -> the generation in which it ran when it was first visited"""
        self.completes = False
        """true if some interleaving visited so far runs to its end"""

    def _conflicts(self, program: Program) -> list[tuple[int, int, set[tuple[int, int]]]]:
        """Return (warp u, warp v, pairs of positions at which their next accesses can conflict)."""
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
        """Yield faults as they are found; a fault may be yielded more than once."""
        seen = {self.start}
        todo = [self.start]
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
                following, faults = self._step(state, warp)
                yield from faults
                if following not in seen:
                    seen.add(following)
                    todo.append(following)
            if stuck and list(state[: self.warps]) == self.ends:
                self.completes = True
            elif stuck:
                yield DEADLOCK

    def _step(self, state: State, warp: int) -> tuple[State, list[str]]:
        """Return the state after a warp's next barrier operation, and the fault that occurs; `state` itself if the warp
        cannot continue."""
        number = state[warp] >> 1
        kind, barrier, count = self.steps[warp][number]
        at = self.position[barrier]
        generation, arrived, expected = state[at : at + 3]
        if arrived and expected != count:
            return state, [MISMATCH]
        same = self.generation.setdefault((warp, number), generation) == generation
        faults = [] if same else [GENERATIONS]
        after = list(state)
        after[warp] += 2 if kind == ARRIVE else 1
        arrived += LANES
        if arrived < count:
            after[at + 1 : at + 3] = arrived, count
            return tuple(after), faults
        after[at : at + 3] = generation + 1, 0, 0
        waiting = [w for w in range(self.warps) if after[w] & 1 and self.steps[w][after[w] >> 1].place == barrier]
        for w in waiting:
            after[w] += 1
        return tuple(after), faults if waiting else [*faults, ALL_ARRIVE]


def _blocks(warp: tuple[Operation, ...]) -> list[tuple[int, int]]:
    """Return (variables read, variables written), as bits, before each barrier operation of a warp and after the
    last."""
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


class Outlook(NamedTuple):
    """What the interleavings of a program show."""

    faults: frozenset[str]
    """each in some interleaving"""
    completes: bool
    """true if some interleaving runs to its end"""
    ends: frozenset[str]
    """the faults in which the other interleavings end"""

    @property
    def open(self) -> frozenset[str]:
        """Return what is not decided."""
        return frozenset()

    @property
    def hidden(self) -> frozenset[str]:
        """Return the faults that one run need not show."""
        return frozenset()

    @property
    def same(self) -> bool:
        """Return whether only stores of one value are unordered; here each warp stores another value."""
        return False

    @property
    def verdicts(self) -> set[str]:
        """Return the correct verdicts."""
        return {"failed" if self.faults else "verified"}

    def always_ends_in(self, fault: str) -> bool:
        """Return whether all interleavings end in one fault."""
        return not self.completes and self.ends == {fault}


def outlook(program: Program) -> Outlook:
    """Return all possible behavior.  A program is correct if it has no faults.

    A generation counts as different if two interleavings that have not ended yet differ in it.  Either both can be
    completed, and then complete ones differ, or one of them cannot, and then there is another fault.
    """
    explorer = Explorer(program)
    faults = frozenset(explorer.faults())
    return Outlook(faults, explorer.completes, faults & ENDS)
