"""The explorer of the soundness test: each rule on a program, and all of it against plain interleavings."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.properties.explorer import (
    ALL_ARRIVE,
    ARRIVE,
    DEADLOCK,
    ENDS,
    FAULTS,
    GENERATIONS,
    LANES,
    MISMATCH,
    RACE,
    READ,
    SYNC,
    WRITE,
    Operation,
    Outlook,
    Program,
    notation,
    outlook,
    parse,
)


def faults(line: str) -> set[str]:
    return set(outlook(parse(line)).faults)


def test_a_program_is_read_back_from_its_notation() -> None:
    program = ((Operation(ARRIVE, 1, 64), Operation(READ, 0)), (), (Operation(SYNC, 1, 64), Operation(WRITE, 0)))
    assert notation(program) == "w0: A(1,64) R(0) | w1: | w2: S(1,64) W(0)"
    assert parse(notation(program)) == program


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("w0: | w1:", set()),
        ("w0: S(0,64) | w1: S(0,64)", set()),
        ("w0: S(0,32) S(0,32) | w1:", set()),
        ("w0: S(0,64) | w1: S(1,64)", {DEADLOCK}),
        ("w0: S(0,64) | w1:", {DEADLOCK}),
        ("w0: S(0,64) S(1,64) | w1: S(1,64) S(0,64)", {DEADLOCK}),
        ("w0: A(0,64) S(1,64) | w1: A(1,64) S(0,64)", set()),
        ("w0: A(0,64) | w1:", set()),
        ("w0: S(0,64) S(0,32) | w1: S(0,64)", set()),
        ("w0: A(0,64) | w1: A(0,96) | w2:", {MISMATCH}),
        ("w0: S(0,64) | w1: S(0,32)", {DEADLOCK, MISMATCH, GENERATIONS}),
        ("w0: A(0,64) A(0,64) | w1:", {ALL_ARRIVE}),
        ("w0: A(0,32) | w1:", {ALL_ARRIVE}),
        ("w0: A(0,64) S(0,64) | w1:", set()),
        ("w0: S(0,64) A(0,64) | w1: S(0,64) A(0,64)", {ALL_ARRIVE}),
        ("w0: S(0,64) S(0,64) | w1: S(0,64) | w2: S(0,64)", {GENERATIONS, DEADLOCK}),
        ("w0: A(0,64) A(1,64) | w1: S(0,64) S(0,64) | w2: S(1,64) A(0,64)", {GENERATIONS, DEADLOCK, ALL_ARRIVE}),
    ],
)
def test_barriers_count_as_the_hardware_does(line: str, expected: set[str]) -> None:
    assert faults(line) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("w0: R(0) | w1: R(0)", set()),
        ("w0: W(0) R(0) | w1: R(1)", set()),
        ("w0: W(0) | w1: R(0)", {RACE}),
        ("w0: W(0) | w1: W(0)", {RACE}),
        ("w0: W(0) S(0,64) | w1: S(0,64) W(0)", set()),
        ("w0: W(0) A(0,64) | w1: S(0,64) R(0)", set()),
        ("w0: A(0,64) W(0) | w1: S(0,64) R(0)", {RACE}),
        ("w0: A(0,64) R(0) | w1: R(0) S(0,64) W(0)", {RACE}),
        ("w0: W(0) A(0,64) | w1: S(0,64) A(1,64) | w2: S(1,64) R(0)", set()),
        ("w0: W(0) A(0,64) | w1: A(1,64) S(0,64) | w2: S(1,64) R(0)", {RACE}),
        ("w0: S(0,64) W(0) | w1: W(0)", {DEADLOCK}),
    ],
)
def test_accesses_race_when_they_can_be_adjacent(line: str, expected: set[str]) -> None:
    assert faults(line) == expected


def test_it_is_known_whether_all_interleavings_end_alike() -> None:
    assert outlook(parse("w0: S(0,64) | w1:")).always_ends_in(DEADLOCK)
    assert outlook(parse("w0: A(0,64) | w1: A(0,96) | w2:")).always_ends_in(MISMATCH)
    assert not outlook(parse("w0: S(0,64) | w1: S(0,32)")).always_ends_in(MISMATCH)
    assert not outlook(parse("w0: S(0,64) S(0,64) | w1: S(0,64) | w2: S(0,64)")).always_ends_in(MISMATCH)
    assert not outlook(parse("w0: S(0,64) | w1: S(0,64)")).always_ends_in(DEADLOCK)


class Plain:
    """A program's machine, stepped one operation at a time, accesses included; nothing is shared between paths."""

    def __init__(self, program: Program, path: tuple[int, ...] = ()) -> None:
        self.program = program
        self.path = path
        self.place = [0] * len(program)
        self.waits: dict[int, int] = {}
        self.open: dict[int, list[tuple[int, Operation]]] = {}
        self.done: dict[int, int] = {}
        self.generations: dict[tuple[int, int], int] = {}
        self.faults: set[str] = set()
        for warp in path:
            self.step(warp)

    def ready(self) -> list[int]:
        if MISMATCH in self.faults:
            return []
        return [w for w, warp in enumerate(self.program) if self.place[w] < len(warp) and w not in self.waits]

    def step(self, warp: int) -> None:
        operation = self.program[warp][self.place[warp]]
        self.place[warp] += 1
        if not operation.is_barrier:
            return
        members = self.open.setdefault(operation.place, [])
        members.append((warp, operation))
        if len({member.threads for _, member in members}) > 1:
            self.faults.add(MISMATCH)
            return
        self.generations[warp, self.place[warp]] = self.done.get(operation.place, 0)
        if operation.kind == SYNC:
            self.waits[warp] = operation.place
        if LANES * len(members) == operation.threads:
            if all(member.kind == ARRIVE for _, member in members):
                self.faults.add(ALL_ARRIVE)
            self.waits = {w: barrier for w, barrier in self.waits.items() if barrier != operation.place}
            self.open[operation.place] = []
            self.done[operation.place] = self.done.get(operation.place, 0) + 1

    def look(self) -> None:
        """Add a race of two warps' next operations, and a deadlock."""
        ready = self.ready()
        following = [self.program[w][self.place[w]] for w in ready]
        accesses = [operation for operation in following if not operation.is_barrier]
        for k, one in enumerate(accesses):
            if any(other.place == one.place and WRITE in (one.kind, other.kind) for other in accesses[:k]):
                self.faults.add(RACE)
        if not ready and self.waits and MISMATCH not in self.faults:
            self.faults.add(DEADLOCK)

    @property
    def ended(self) -> bool:
        return not self.waits and all(place == len(warp) for place, warp in zip(self.place, self.program, strict=True))


def interleavings(program: Program, path: tuple[int, ...] = ()) -> Iterator[Plain]:
    """The machine after every prefix of every interleaving."""
    machine = Plain(program, path)
    machine.look()
    yield machine
    for warp in machine.ready():
        yield from interleavings(program, (*path, warp))


def plainly(program: Program) -> Outlook:
    """The outlook by its definition."""
    machines = list(interleavings(program))
    found = {fault for machine in machines for fault in machine.faults}
    complete = [machine.generations for machine in machines if machine.ended and MISMATCH not in machine.faults]
    if any(generations != complete[0] for generations in complete):
        found.add(GENERATIONS)
    return Outlook(frozenset(found), bool(complete), frozenset(found & ENDS))


def small(source: random.Random) -> Program:
    """Three warps of up to three operations, or two of up to four."""
    warps, longest = source.choice(((2, 4), (3, 3), (3, 2)))

    def operation() -> Operation:
        kind = source.choice((SYNC, SYNC, ARRIVE, READ, WRITE))
        if kind in (READ, WRITE):
            return Operation(kind, source.randrange(2))
        return Operation(kind, source.randrange(2), LANES * source.choice((warps, 2, 2, 2, 1)))

    return tuple(tuple(operation() for _ in range(source.randrange(longest + 1))) for _ in range(warps))


def test_the_explorer_sees_what_plain_interleavings_show() -> None:
    source = random.Random(0)
    seen = dict.fromkeys((*FAULTS, ""), 0)
    for _ in range(800):
        program = small(source)
        plain, found = plainly(program), outlook(program)
        assert found.faults - {GENERATIONS} == plain.faults - {GENERATIONS}, notation(program)
        assert (found.completes, found.ends) == (plain.completes, plain.ends), notation(program)
        # the explorer also compares interleavings that cannot be completed: then there is another fault
        assert plain.faults <= found.faults, notation(program)
        assert bool(plain.faults) == bool(found.faults), notation(program)
        for fault in plain.faults or {""}:
            seen[fault] += 1
    assert min(seen.values()) > 8, seen
