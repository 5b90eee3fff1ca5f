"""Random programs of one mbarrier that lanes initialize, together or one by one, and all their interleavings.

Two lanes of warp 0 and one lane of warp 1 execute steps. One instruction may be executed by both lanes of warp 0; each
lane executes it at a time of its own, as PTX allows. A program fails if in some interleaving

- a use, or a poll of a wait, finds no mbarrier;
- an initialization finds a live mbarrier, unless both are of one instruction and have one count, and no thread has used
  the mbarrier in between;
- more threads arrive than the phase waits for, an operation meets another phase than elsewhere, or threads are stuck.

A program that does not fail is `same` if an instruction initializes with both lanes. The enumeration knows no clocks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy import int32, uint64

import wsemu
from wsemu import cuda, ptx

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.properties.programs import Random
    from wsemu.model.settings import Engine

INIT, ARRIVE, WAIT, MEET_WARP, MEET = range(1, 6)
BOTH: Final = 3
THREADS: Final = ((0, 0), (0, 1), (1, 0))
"""(warp, lane) of each thread"""
HARMLESS: Final = frozenset({"phase-unobserved", "dangling-phase", "same-value-init"})


class Step(NamedTuple):
    """An instruction of a warp: the lanes that execute it, as a mask, and a count or parity."""

    kind: int
    lanes: int = BOTH
    number: int = 0


Program = tuple[tuple[Step, ...], tuple[Step, ...]]


@cuda.jit
def interpreter(table, y):
    """Run a line of the table in each warp."""
    bar = cuda.shared.array(1, uint64)
    warp, lane = cuda.threadIdx.x // 32, cuda.threadIdx.x % 32
    for step in range(table.shape[1]):
        kind, lanes, number = table[warp, step, 0], table[warp, step, 1], table[warp, step, 2]
        if kind == MEET:
            cuda.syncthreads()
        elif kind == MEET_WARP:
            cuda.syncwarp()
        elif lane < 2 and lanes >> lane & 1:
            if kind == INIT:
                ptx.mbarrier_init(bar, 0, number)
            elif kind == ARRIVE:
                ptx.mbarrier_arrive(bar, 0)
            elif kind == WAIT:
                ptx.mbarrier_wait_parity(bar, 0, number)
    y[cuda.threadIdx.x] = 1


def check_program(program: Program, engine: Engine) -> wsemu.Report:
    """Return the report of a program."""
    table = np.zeros((2, max(map(len, program)), 3), int32)
    for warp, steps in enumerate(program):
        for k, step in enumerate(steps):
            table[warp, k] = step
    return wsemu.check(interpreter, 1, 64, (table, np.zeros(64, np.float32)), engine=engine)


class State(NamedTuple):
    """Where each thread is, and the mbarrier."""

    at: tuple[int, int, int]
    made: tuple[int, int, int] = (-1, -1, 0)
    """(warp, step, count) of the last initialization; -1: there is none"""
    used: bool = False
    phase: int = 0
    pending: int = 0


class FaultError(Exception):
    """An interleaving fails."""


class Explorer:
    """All interleavings of a program."""

    def __init__(self, program: Program) -> None:
        self.lines = [
            [(k, step) for k, step in enumerate(program[warp]) if step.lanes >> lane & 1] for warp, lane in THREADS
        ]
        self.meetings = [[n for n, (_, step) in enumerate(line) if step.kind == MEET] for line in self.lines]
        self.met: dict[tuple[int, int], int] = {}
        """(thread, step) -> phase"""
        self.fails = False

    def explore(self) -> bool:
        """Return whether some interleaving fails."""
        todo = [State((0, 0, 0))]
        seen = {*todo}
        while todo and not self.fails:
            state = todo.pop()
            moves = [*self._moves(state)]
            ended = all(at == len(line) for at, line in zip(state.at, self.lines, strict=True))
            self.fails |= not ended and all(move.at == state.at for move in moves)
            todo += {*moves} - seen
            seen |= {*moves}
        return self.fails

    def _moves(self, state: State) -> Iterator[State]:
        for thread, at in enumerate(state.at):
            if at < len(self.lines[thread]):
                try:
                    yield from self._step(state, thread, at)
                except FaultError:
                    self.fails = True

    def _step(self, state: State, thread: int, at: int) -> Iterator[State]:
        k, (kind, _, number) = self.lines[thread][at]
        place = tuple(a + (t == thread) for t, a in enumerate(state.at))
        after = state._replace(at=place)  # type: ignore[arg-type]
        if kind in (MEET, MEET_WARP):
            if self._all_come(state, thread, at, kind):
                yield after
        elif kind == INIT:
            made = THREADS[thread][0], k, number
            if state.made[0] >= 0 and (made != state.made or state.used):
                raise FaultError
            yield after._replace(made=made, phase=0, pending=number)
        elif state.made[0] < 0:
            raise FaultError
        elif kind == ARRIVE:
            if not state.pending:
                raise FaultError
            self._meets(thread, k, state.phase)
            full = state.pending == 1
            pending = state.made[2] if full else state.pending - 1
            yield after._replace(used=True, phase=state.phase + full, pending=pending)
        elif state.phase & 1 != number:
            self._meets(thread, k, state.phase - 1)
            yield after._replace(used=True)
        else:
            yield state._replace(used=True)  # it polls

    def _all_come(self, state: State, thread: int, at: int, kind: int) -> bool:
        """Return whether all participants have reached a meeting: the two lanes of warp 0, or all threads."""
        if kind == MEET_WARP:
            step = self.lines[thread][at][0]
            others = [t for t, (warp, _) in enumerate(THREADS) if warp == THREADS[thread][0]]
            return all([k for k, _ in self.lines[t]].index(step) <= state.at[t] for t in others)
        number = self.meetings[thread].index(at)
        return all(len(own) > number and own[number] <= state.at[t] for t, own in enumerate(self.meetings))

    def _meets(self, thread: int, step: int, phase: int) -> None:
        if self.met.setdefault((thread, step), phase) != phase:
            raise FaultError


def draw(random: Random) -> Program:
    """Draw an initialization, mostly by both lanes of warp 0; meetings; one or two phases; up to two random edits."""
    count = random.randrange(1, 4)
    first = [Step(INIT, random.choice((BOTH, BOTH, BOTH, 1, 2)), count)]
    if random.random() < 0.3:
        first.append(Step(MEET_WARP))
    other: list[Step] = []
    if random.random() < 0.9:
        first.append(Step(MEET))
        other.append(Step(MEET))
    for phase in range(random.randrange(1, 3)):
        arrivals = random.sample([(0, 1), (0, 2), (1, 1)], count)
        for warp, lane in arrivals:
            (first, other)[warp].append(Step(ARRIVE, lane))
        for warp, lane in random.sample([(0, 1), (0, 2), (1, 1)], random.randrange(1, 4)):
            (first, other)[warp].append(Step(WAIT, lane, phase & 1))
        first.append(Step(MEET))
        other.append(Step(MEET))
    for _ in range(random.choice((0, 0, 1, 1, 2))):
        _edit(random, random.choice((first, first, other)), count)
    return tuple(first), tuple(other)


def _edit(random: Random, steps: list[Step], count: int) -> None:
    k = random.randrange(0, len(steps)) if steps else 0
    kind = random.randrange(0, 4)
    if kind == 0 and steps and steps[k].kind != MEET:
        del steps[k]
    elif kind == 1:
        steps[k : k + 2] = steps[k : k + 2][::-1]
    elif kind == 2:
        lanes = random.choice((BOTH, 1, 2))
        steps.insert(k, Step(INIT, lanes, random.choice((count, count, 1))))
    else:
        steps.insert(k, Step(MEET_WARP))


class JudgedInit(NamedTuple):
    """A program, whether it fails, whether it initializes by both lanes, and every disagreement."""

    program: Program
    fails: bool
    same: bool
    complaints: list[str]

    def __str__(self) -> str:
        return "\n".join([str(self.program), *(f"    {line}" for line in self.complaints)])


def judged_inits(program: Program, engines: tuple[Engine, ...]) -> JudgedInit:
    """Compare wsemu with enumeration.  Warp 1 has one lane, which executes its steps."""
    lines = program[0], tuple(step._replace(lanes=1) for step in program[1])
    fails = Explorer(lines).explore()
    same = any(step.kind == INIT and step.lanes == BOTH for step in lines[0])
    complaints: list[str] = []
    for engine in engines:
        report = check_program(lines, engine)
        codes = {finding.code for finding in report.findings}
        shown = f"{engine}: {report.verdict} with {', '.join(sorted(codes)) or 'nothing'}; the interleavings "
        if report.verdict != ("failed" if fails else "verified"):
            complaints.append(f"{shown}{'fail' if fails else 'end well'}")
        elif not fails and (("same-value-init" in codes) != same or not codes <= HARMLESS):
            complaints.append(f"{shown}have {'' if same else 'no '}initialization by both lanes")
    return JudgedInit(lines, fails, same, complaints)
