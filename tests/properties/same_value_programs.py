"""Random programs of stores and loads whose values are known, and all their interleavings.

Three threads, each in a warp of its own, load and store variables of four bytes, whole or a byte of them, and meet in
pairs at named barriers.  A program is good if every two accesses to a byte that its barriers do not order are two
loads, or two stores of one value: then all interleavings give each load, and memory in the end, the same values, which
is compared as well.  It is `ordered` if no two such stores are left unordered.

Threads also draw numbers from counters, with fences around, which orders accesses in some interleavings only: of two
accesses that the barriers leave unordered, the second one may run before the first one's thread draws its next number.
A store of a drawn number has another value than any unordered store, in some interleaving or by the rules.  Atomics
exchange variables for one value: they conflict with plain accesses only.

The enumeration knows nothing of clocks or cells.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple
from unittest import mock

import numpy as np
from numpy import int32, uint8, uint32

import wsemu
from wsemu import cuda, ptx
from wsemu.launch import same_values

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.properties.programs import Random
    from wsemu.model.settings import Engine

THREADS: Final = 3
VARIABLES: Final = 2
SIZE: Final = 4
"""bytes of a variable"""
LONGEST: Final = 9
MOST_STATES: Final = 40_000
LOAD, STORE, STORE_BYTE, MEET, DRAW, STORE_DRAWN, EXCHANGE = range(1, 8)
COUNTERS: Final = 2
MAX_DRAWS: Final = 5
EXCHANGED: Final = 3
"""the value that each exchange writes"""
PAIRS: Final = ((0, 1), (1, 2), (0, 2))
"""who meets at a barrier"""


class Step(NamedTuple):
    """An operation: of a variable, or of its second byte, and the value that is stored; or a barrier, or a counter."""

    kind: int
    place: int
    value: int = 0

    def bytes(self) -> range:
        """The bytes that it accesses."""
        first = SIZE * self.place
        return range(first + 1, first + 2) if self.kind == STORE_BYTE else range(first, first + SIZE)

    def byte(self, at: int) -> int:
        """What it stores there."""
        return self.value if self.kind == STORE_BYTE else self.value >> 8 * (at % SIZE) & 255

    @property
    def is_access(self) -> bool:
        """Whether it accesses a variable."""
        return self.kind not in (MEET, DRAW)


Program = tuple[tuple[Step, ...], ...]


@cuda.jit
def interpreter(table, memory, parts, sink, counters):
    """The first lane of each warp runs a line of the table."""
    warp, lane = cuda.threadIdx.x // 32, cuda.threadIdx.x % 32
    total, drawn = int32(0), int32(0)
    for step in range(table.shape[1]):
        kind, place, value = table[warp, step, 0], table[warp, step, 1], table[warp, step, 2]
        if kind == MEET:
            ptx.barrier_sync(1 + place, 64)
        elif lane == 0:
            if kind == LOAD:
                total = 7 * total + memory[place]
            elif kind == STORE:
                memory[place] = value
            elif kind == STORE_BYTE:
                parts[SIZE * place + 1] = value
            elif kind == DRAW:
                cuda.threadfence()
                drawn = cuda.atomic.add(counters, place, 1)
                cuda.threadfence()
                total = 7 * total + drawn
            elif kind == STORE_DRAWN:
                memory[place] = drawn
            elif kind == EXCHANGE:
                cuda.atomic.exch(memory, place, uint32(EXCHANGED))
    if lane == 0:
        sink[warp] = total


def check_program(program: Program, engine: Engine = "vm") -> wsemu.Report:
    """wsemu's report of a program."""
    table = np.zeros((THREADS, max(1, *map(len, program)), 3), int32)
    for t, steps in enumerate(program):
        for k, step in enumerate(steps):
            table[t, k] = step
    memory = np.zeros(VARIABLES, uint32)
    arguments = (table, memory, memory.view(uint8), np.zeros(THREADS, int32), np.zeros(COUNTERS, int32))
    return wsemu.check(interpreter, 1, 32 * THREADS, arguments, engine=engine)


def draw(random: Random) -> Program:
    """A program whose barriers are met by both of their pair, in one order."""
    made: list[list[Step]] = [[] for _ in range(THREADS)]
    few, draws = random.random() < 0.6, random.random() < 0.5
    for _ in range(random.randrange(2, LONGEST)):
        if random.random() < 0.4:
            which = random.randrange(0, len(PAIRS))
            for t in PAIRS[which]:
                made[t].append(Step(MEET, which))
            continue
        steps = made[random.randrange(0, THREADS)]
        if draws and random.random() < 0.4 and sum(step.kind == DRAW for line in made for step in line) < MAX_DRAWS:
            steps.append(Step(DRAW, random.randrange(0, COUNTERS)))
        kinds = [LOAD, STORE, STORE, STORE, STORE_BYTE, *[EXCHANGE] * draws]
        kinds += [STORE_DRAWN] * any(step.kind == DRAW for step in steps)
        steps.append(_draw_access(random, kinds, few=few))
    return tuple(map(tuple, made))


def _draw_access(random: Random, kinds: Sequence[int], *, few: bool) -> Step:
    """An access of one of these kinds to a variable; with `few` values, more stores are of one value."""
    kind, place = random.choice(kinds), random.randrange(0, VARIABLES)
    value = random.choice((0, 1) if few else (0, 1, 256, 257))
    return Step(kind, place, {STORE: value, STORE_BYTE: value & 1, EXCHANGE: EXCHANGED}.get(kind, 0))


class Known(NamedTuple):
    """What a program shows."""

    good: bool
    """no two accesses that nothing orders differ"""
    ordered: bool
    """and all stores are ordered"""
    results: int
    """different results of all interleavings"""


def known(program: Program) -> Known:
    """Judge a program by the order of its steps, and by all its interleavings."""
    before = _order(program)
    steps = [(t, k) for t, line in enumerate(program) for k in range(len(line)) if line[k].is_access]
    good = ordered = True
    for one in steps:
        for other in steps:
            if one >= other or one in before[other] or other in before[one]:
                continue
            a, b = program[one[0]][one[1]], program[other[0]][other[1]]
            met = [at for at in a.bytes() if at in b.bytes()]
            if not met or a.kind == b.kind in (LOAD, EXCHANGE):
                continue
            if {a.kind, b.kind} & {LOAD, EXCHANGE, STORE_DRAWN}:
                good = False
            else:
                ordered = False
                good &= all(a.byte(at) == b.byte(at) for at in met)
    return Known(good, good and ordered, len(_results(program)))


def _order(program: Program) -> dict[tuple[int, int], set[tuple[int, int]]]:
    """Step -> those before it."""
    before: dict[tuple[int, int], set[tuple[int, int]]] = {}
    at, knows = [0] * THREADS, [set[tuple[int, int]]() for _ in range(THREADS)]
    while any(at[t] < len(program[t]) for t in range(THREADS)):
        for t in range(THREADS):
            while at[t] < len(program[t]) and program[t][at[t]].kind != MEET:
                before[t, at[t]] = set(knows[t])
                knows[t].add((t, at[t]))
                at[t] += 1
        for which, (t, u) in enumerate(PAIRS):
            meets = all(at[s] < len(program[s]) and program[s][at[s]] == Step(MEET, which) for s in (t, u))
            if meets:
                knows[t] |= knows[u]
                knows[u] |= knows[t]
                at[t], at[u] = at[t] + 1, at[u] + 1
    return before


State = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
"""where threads are, the bytes of memory, what threads have loaded"""


def _results(program: Program) -> set[tuple[tuple[int, ...], ...]]:
    """What threads have loaded and memory holds in the end, of all interleavings."""
    start: State = ((0,) * THREADS, (0,) * (SIZE * VARIABLES), (0,) * THREADS)
    seen, todo = {start}, [start]
    ends: set[tuple[tuple[int, ...], ...]] = set()
    while todo and len(seen) < MOST_STATES:
        at, memory, loaded = todo.pop()
        moves = []
        for t in range(THREADS):
            if at[t] == len(program[t]):
                continue
            step = program[t][at[t]]
            held, total = [*memory], [*loaded]
            movers: tuple[int, ...] = (t,)
            if step.kind == MEET:
                movers = PAIRS[step.place]
                if t != movers[0] or any(at[s] == len(program[s]) or program[s][at[s]] != step for s in movers):
                    continue
            elif step.kind == LOAD:
                total[t] = 7 * total[t] + int.from_bytes(held[q] for q in step.bytes())
            elif step.is_access:
                for q in step.bytes():
                    held[q] = step.byte(q)
            after = tuple(n + (s in movers) for s, n in enumerate(at))
            moves.append((after, tuple(held), tuple(total)))
        if not moves:
            ends.add((memory, loaded))
        for state in moves:
            if state not in seen:
                seen.add(state)
                todo.append(state)
    return ends


class JudgedValues(NamedTuple):
    """A program, what is known of it, and every disagreement."""

    program: Program
    known: Known
    complaints: list[str]

    def __str__(self) -> str:
        return "\n".join([str(self.program), *(f"    {line}" for line in self.complaints)])


def _mixes_widths(program: Program) -> bool:
    """Return whether a variable is stored to as a whole, and a byte of it."""
    stores = {(step.place, step.kind) for line in program for step in line if step.kind in (STORE, STORE_BYTE)}
    return len(stores) > len({place for place, _ in stores})


def judged_values(program: Program, engines: tuple[Engine, ...], *, large: bool = False) -> JudgedValues:
    """Compare wsemu with enumeration; `large`: as in a launch that is too large for the reference engine, which may
    take stores of different widths for a race."""
    can = known(program)
    complaints = [] if not can.good or can.results == 1 else ["a good program has several results"]
    for engine in engines:
        with mock.patch.object(same_values, "MOST", 0 if large else same_values.MOST):
            report = check_program(program, engine)
        codes = {finding.code for finding in report.findings}
        same = "same-value-store" in codes
        if large and can.good and not can.ordered and codes == {"race"} and _mixes_widths(program):
            continue
        if (report.verdict == "verified") != can.good or (can.good and same == can.ordered):
            complaints.append(f"{engine}: {report.verdict} with {', '.join(sorted(codes)) or 'nothing'}; {can}")
    return JudgedValues(program, can, complaints)
