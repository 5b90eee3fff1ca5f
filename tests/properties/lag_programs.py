"""Random programs of mbarriers whose warps have two lanes, and their interleavings: lanes apart, and lanes together.

A step of a warp is one instruction: an arrival or a wait by one lane or by both, each lane at an mbarrier of its own,
or a meeting of the warp.  Apart, each lane takes its steps by itself, as PTX allows.  Together, lanes that both execute
a step come to it at once, and take it at once if it is an arrival, or a wait of both for one phase.  A lane that waits
by itself holds the other one back at the end of the step, as a compiler makes lanes meet there, or it does not, and the
other one goes on to the next step of both: a program has to be right either way.

What fails apart and together is an error; what fails apart alone, a `lane-lag`; what does not fail apart is verified.

The enumeration knows nothing of clocks or rules.
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

MBARRIERS: Final = 3
WARPS: Final = 2
WIDTH: Final = 2
LONGEST: Final = 7
MOST_STATES: Final = 60_000
NOTHING, ARRIVE, WAIT, MEET = range(4)
DEADLOCK, OVER, PHASES, UNOBSERVED = "deadlock", "over-arrival", "phases", "phase-unobserved"


class Step(NamedTuple):
    """An instruction of a warp: of each lane that executes it the mbarrier and the parity."""

    kind: int
    lanes: tuple[tuple[int, int] | None, ...]


class Program(NamedTuple):
    """Counts of the mbarriers, and the steps of each warp."""

    counts: tuple[int, ...]
    warps: tuple[tuple[Step, ...], ...]


class State(NamedTuple):
    """The step of each lane; the (phase, pending, whether it was observed) of each mbarrier."""

    at: tuple[tuple[int, ...], ...]
    mbarriers: tuple[tuple[int, int, bool], ...]


class FaultError(Exception):
    """An interleaving ends here."""


class Explorer:
    """Visits every state that some interleaving reaches."""

    def __init__(self, program: Program, *, together: bool, holds: bool = False) -> None:
        """With `holds`, no lane begins the next step before the other one has executed this one."""
        self.program, self.together, self.holds = program, together, holds
        self.faults: set[str] = set()
        self.met: dict[tuple[int, int, int], int] = {}
        """(warp, step, lane) -> the phase in which it was first executed"""
        self.known = True

    def explore(self) -> set[str]:
        """Return what goes wrong in some interleaving."""
        made = tuple((0, n, True) for n in self.program.counts)
        start = State(((0,) * WIDTH,) * WARPS, made)
        seen, todo = {start}, [start]
        while todo and self.known:
            state = todo.pop()
            stuck, ended = True, False
            for moves in self._moves(state):
                stuck = False
                try:
                    following = self._make(state, moves)
                except FaultError as fault:
                    self.faults.add(str(fault))
                    ended = True
                    continue
                if following not in seen:
                    seen.add(following)
                    todo.append(following)
            if (
                stuck
                and not ended
                and any(
                    at < len(steps) for lanes, steps in zip(state.at, self.program.warps, strict=True) for at in lanes
                )
            ):
                self.faults.add(DEADLOCK)
            self.known = len(seen) <= MOST_STATES
        return self.faults

    def _moves(self, state: State) -> Iterator[list[tuple[int, int]]]:
        """Yield the (warp, lane) that can execute a step now."""
        for warp, steps in enumerate(self.program.warps):
            for lane, at in enumerate(state.at[warp]):
                if at == len(steps):
                    continue
                step, others = steps[at], [*state.at[warp]]
                shared = None not in step.lanes and (self.together or step.kind == MEET)
                if (shared or self.holds) and min(others) < at:
                    continue  # it reaches this instruction together with the others
                if shared and max(others) == at and (step.kind != WAIT or len({*step.lanes}) == 1):
                    if lane == 0 and self._may(state, step, lane):
                        yield [(warp, one) for one in range(WIDTH)]
                elif self._may(state, step, lane):
                    yield [(warp, lane)]

    def _may(self, state: State, step: Step, lane: int) -> bool:
        what = step.lanes[lane]
        return step.kind != WAIT or what is None or state.mbarriers[what[0]][0] & 1 != what[1]

    def _make(self, state: State, moves: list[tuple[int, int]]) -> State:
        warp, first = moves[0]
        at = [*map(list, state.at)]
        mbarriers = [*state.mbarriers]
        step = self.program.warps[warp][state.at[warp][first]]
        arrivals: dict[int, list[int]] = {}
        for _, lane in moves:
            what = step.lanes[lane]
            if what is not None and step.kind == WAIT:
                phase, pending, _ = mbarriers[what[0]]
                self._meets((warp, state.at[warp][lane], lane), phase - 1)
                mbarriers[what[0]] = phase, pending, True
            if what is not None and step.kind == ARRIVE:
                arrivals.setdefault(what[0], []).append(lane)
            at[warp][lane] += 1
        for place, lanes in arrivals.items():
            for lane in lanes:
                self._meets((warp, state.at[warp][lane], lane), mbarriers[place][0])
            mbarriers[place] = self._arrived(mbarriers[place], len(lanes), self.program.counts[place])
        return State(tuple(map(tuple, at)), tuple(mbarriers))

    def _arrived(self, old: tuple[int, int, bool], count: int, expected: int) -> tuple[int, int, bool]:
        phase, pending, seen = old
        if not seen:
            self.faults.add(UNOBSERVED)
        if count > pending:
            raise FaultError(OVER)
        return (phase, pending - count, seen) if pending > count else (phase + 1, expected, False)

    def _meets(self, who: tuple[int, int, int], phase: int) -> None:
        if self.met.setdefault(who, phase) != phase:
            self.faults.add(PHASES)


# -- the kernel -------------------------------------------------------------------------------------------------------


@cuda.jit
def interpreter(table, counts):
    """Run a line of the table in each warp; its lanes above the second meet alone."""
    bars = cuda.shared.array(MBARRIERS, uint64)
    warp, lane = cuda.threadIdx.x // 32, cuda.threadIdx.x % 32
    if cuda.threadIdx.x == 0:
        for b in range(MBARRIERS):
            ptx.mbarrier_init(bars, b, counts[b])
    cuda.syncthreads()
    for step in range(table.shape[1]):
        kind, place, parity = table[warp, step, lane, 0], table[warp, step, lane, 1], table[warp, step, lane, 2]
        if kind == ARRIVE:
            ptx.mbarrier_arrive(bars, place)
        elif kind == WAIT:
            while not ptx.mbarrier_try_wait_parity(bars, place, parity):
                pass
        elif kind == MEET:
            cuda.syncwarp()


def check_program(program: Program, engine: Engine = "vm") -> wsemu.Report:
    """Return wsemu's report on a program."""
    table = np.zeros((WARPS, max(1, *map(len, program.warps)), 32, 3), int32)
    for w, steps in enumerate(program.warps):
        for k, step in enumerate(steps):
            for lane, what in enumerate(step.lanes):
                if what is not None:
                    table[w, k, lane] = step.kind, *what
            if step.kind == MEET:
                table[w, k, :, 0] = MEET
    return wsemu.check(interpreter, 1, 32 * WARPS, (table, np.array(program.counts, int32)), engine=engine)


# -- families ---------------------------------------------------------------------------------------------------------


def ring(random: Random) -> Program:
    """Return a producer and a consumer; both lanes execute some of their waits and arrivals."""
    rounds = random.randrange(1, 4)
    counts = [1, 1, 1]
    both = random.random() < 0.5
    counts[1] = 1 + both
    made: list[list[Step]] = [[], []]
    for turn in range(rounds):
        made[0] += [_step(random, WAIT, 1, turn & 1 ^ 1, 3), *_meet(random), _step(random, ARRIVE, 0, 0, 1)]
        made[1] += [_step(random, WAIT, 0, turn & 1, 3), *_meet(random), _step(random, ARRIVE, 1, 0, 3 if both else 1)]
    return _edited(random, counts, made)


def split(random: Random) -> Program:
    """Return a ring in which each lane of an instruction waits for, or arrives on, an mbarrier of its own."""
    rounds, apart = random.randrange(1, 4), random.random() < 0.7
    counts = [1, 1, 1]
    made: list[list[Step]] = [[], []]
    for turn in range(rounds):
        free, full = turn & 1 ^ 1, turn & 1
        waits = [Step(WAIT, ((1, free), (2, free)))] if apart else [_step(random, WAIT, b, free, 3) for b in (1, 2)]
        made[0] += [*waits, *_meet(random), _step(random, ARRIVE, 0, 0, 1)]
        made[1] += [_step(random, WAIT, 0, full, 3), *_meet(random), Step(ARRIVE, ((1, 0), (2, 0)))]
    return _edited(random, counts, made)


def mixed(random: Random) -> Program:
    """Return random steps."""
    counts = [random.randrange(1, 4) for _ in range(MBARRIERS)]
    made = [[_random_step(random) for _ in range(random.randrange(1, LONGEST))] for _ in range(WARPS)]
    return Program(tuple(counts), tuple(map(tuple, made)))


def _meet(random: Random) -> list[Step]:
    return [Step(MEET, ((0, 0), (0, 0)))] if random.random() < 0.2 else []


def _step(random: Random, kind: int, place: int, parity: int, lanes: int) -> Step:
    if random.random() < 0.15:
        lanes = random.choice((1, 2, 3))
    return Step(kind, tuple((place, parity) if lanes >> lane & 1 else None for lane in range(WIDTH)))


def _random_step(random: Random) -> Step:
    kind = random.choice((ARRIVE, ARRIVE, WAIT, WAIT, MEET))
    if kind == MEET:
        return Step(MEET, ((0, 0), (0, 0)))
    if random.random() < 0.5:
        place, parity = random.randrange(0, MBARRIERS), random.randrange(0, 2)
        return _step(random, kind, place, parity, random.choice((1, 2, 3, 3)))
    return Step(kind, tuple((random.randrange(0, MBARRIERS), random.randrange(0, 2)) for _ in range(WIDTH)))


def _edited(random: Random, counts: list[int], made: list[list[Step]]) -> Program:
    """Return the program after 0 to 2 edits."""
    for _ in range(random.choice((0, 0, 0, 1, 2))):
        steps = random.choice(made)
        k = random.randrange(0, len(steps)) if steps else -1
        edit = random.randrange(0, 4)
        if edit == 0 and steps:
            del steps[k]
        elif edit == 1 and steps:
            steps.insert(k, _random_step(random))
        elif edit == 2 and steps:
            steps[k : k + 2] = steps[k : k + 2][::-1]
        else:
            counts[random.randrange(0, MBARRIERS)] = random.randrange(1, 3)
    return Program(tuple(counts), tuple(map(tuple, made)))


LAG_FAMILIES: Final = {"ring": ring, "split": split, "mixed": mixed}


# -- judgement --------------------------------------------------------------------------------------------------------


class JudgedLag(NamedTuple):
    """A program, its behavior with lanes together and apart, and every disagreement."""

    program: Program
    together: frozenset[str]
    apart: frozenset[str]
    known: bool
    complaints: list[str]

    @property
    def fails(self) -> bool:
        """Return whether it fails, even with lanes together."""
        return bool(self.apart) and bool(self.together)

    @property
    def lags(self) -> bool:
        """Return whether it fails only because of a lane that lags."""
        return bool(self.apart) and not self.together

    def __str__(self) -> str:
        return "\n".join([str(self.program), *(f"    {line}" for line in self.complaints)])


def judged_lag(program: Program, engines: tuple[Engine, ...]) -> JudgedLag:
    """Compare wsemu with enumeration."""
    ways = [Explorer(program, together=True, holds=holds) for holds in (False, True)]
    together = frozenset[str]().union(*(way.explore() for way in ways))
    ways.append(Explorer(program, together=False))
    apart = frozenset(ways[-1].explore())
    known = all(way.known for way in ways)
    complaints: list[str] = []
    for engine in engines if known else ():
        report = check_program(program, engine)
        codes = {finding.code for finding in report.findings}
        said = f"{engine}: {report.verdict} with {', '.join(sorted(codes)) or 'nothing'}"
        shown = f"together {sorted(together)}, apart {sorted(apart)}"
        wrong = (report.verdict == "failed") != bool(together - {UNOBSERVED} and apart - {UNOBSERVED})
        warned = bool(codes & {"lane-lag", UNOBSERVED})  # an arrival that is late alone is folded into the lag
        lags = "lane-lag" in codes or not apart - {UNOBSERVED}
        if (
            wrong
            or report.verdict == "incomplete"
            or (report.verdict == "verified" and (warned, lags) != (bool(apart), True))
        ):
            complaints.append(f"{said}; the interleavings show {shown}")
    return JudgedLag(program, together, apart, known, complaints)
