"""Random programs of mbarriers and copies that a counter steers, the kernel that executes them, and what they can do.

They are programs of phase_programs.py, in one CTA or in two, whose threads also draw numbers from a counter in global
memory, and look at it; what a thread does behind that may depend on what it got:

    D(o,r)  L(o,r)      r = the counter, which goes up by one; r = the counter; relaxed, or for o between two fences
    R(v)  W(v)          with v of 100 and more: plain read and write of a place in global memory
    s?r=n  s?r!n        step s, if r is n, or is not

Whatever the numbers, each thread does what a program without any does.  So all numbers are tried: an interleaving
counts where the counter gives them.  What phase_explorer.py finds in one of them is what the program can do.  A draw
between fences comes before one that has got a later number; that it was made earlier orders nothing else.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy import float32, int32, uint64

import wsemu
from tests.properties.phase_explorer import MEETINGS, RACE, Explorer, Order, Program, Step, without_empty
from tests.properties.phase_programs import HARMLESS, mixed, ring
from wsemu import cuda, ptx

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tests.properties.phase_explorer import Node, State
    from tests.properties.programs import Random
    from wsemu.model.settings import Engine

DRAWS: Final = frozenset("DL")
GLOBAL: Final = 100
"""the first number of a place in global memory"""
PLACES: Final = 4
REGISTERS: Final = 2
MBARRIERS, VARIABLES, NAMED = 4, 3, 1
"""of a CTA"""
MOST_DRAWS: Final = 3
MOST_STEPS: Final = 22
"""of all threads"""
KINDS: Final = " adxewpTginCRWPSADL"
(ADD, DROP, EXPECT_ARRIVE, EXPECT, WAIT, PEEK, LOAD, COPY, INC, NOINC, COPIED, READ, WRITE, FENCE, SYNC, ARRIVE, DRAW,
 LOOK) = range(1, len(KINDS))  # fmt: skip


class Guarded(NamedTuple):
    """A step, and when it is made."""

    step: Step
    register: int = -1
    """-1: always"""
    value: int = 0
    equal: bool = True

    def holds(self, got: dict[int, int]) -> bool:
        return self.register < 0 or (got.get(self.register, 0) == self.value) == self.equal

    def __str__(self) -> str:
        what = (
            str(self.step) if self.step.kind not in DRAWS else f"{self.step.kind}({self.step.place},{self.step.number})"
        )
        return what if self.register < 0 else f"{what}?{self.register}{'=' if self.equal else '!'}{self.value}"


Line = tuple[Guarded, ...]


class Steered(NamedTuple):
    """Counts of the mbarriers of a CTA, and the steps of its threads, CTA by CTA."""

    counts: tuple[tuple[int, ...], ...]
    threads: tuple[tuple[Line, ...], ...]

    def __str__(self) -> str:
        return " || ".join(
            f"{' '.join(map(str, counts))} | " + " | ".join(" ".join(map(str, line)) for line in lines)
            for counts, lines in zip(self.counts, self.threads, strict=True)
        )


_STEP = re.compile(r"([a-zA-Z])(?:\((\d+)(?:,(\d+))?\))?(?:\?(\d)([=!])(\d+))?")


def parse(text: str) -> Steered:
    """The program that `str` wrote."""
    ctas = [cta.split("|") for cta in text.split("||")]
    return Steered(
        tuple(tuple(map(int, counts.split())) for counts, *_ in ctas),
        tuple(tuple(tuple(map(_parsed, line.split())) for line in lines) for _, *lines in ctas),
    )


def _parsed(text: str) -> Guarded:
    found = _STEP.fullmatch(text)
    assert found, text
    kind, place, number, register, relation, value = found.groups()
    step = Step(kind, int(place or 0), int(number or 0))
    return Guarded(step, int(register), int(value), relation == "=") if register else Guarded(step)


# -- the kernel -------------------------------------------------------------------------------------------------------
@cuda.jit
def interpreter(table, counts, source, counter, memory, sink):
    """Each warp of each CTA runs a line of the table in its first lane; named barriers are met by all of it."""
    bars = cuda.shared.array(MBARRIERS, uint64)
    tile = cuda.shared.array((VARIABLES, 4), float32)
    cta, warp, lane = cuda.blockIdx.x, cuda.threadIdx.x // 32, cuda.threadIdx.x % 32
    if cuda.threadIdx.x == 0:
        for b in range(MBARRIERS):
            if counts[cta, b] > 0:
                ptx.mbarrier_init(bars, b, counts[cta, b])
        for v in range(VARIABLES):
            for k in range(4):
                tile[v, k] = 0
        ptx.fence_proxy_async()
    cuda.syncthreads()
    total = float32(0)
    first, second = int32(0), int32(0)
    for step in range(table.shape[2]):
        kind, place, number = table[cta, warp, step, 0], table[cta, warp, step, 1], table[cta, warp, step, 2]
        register, value, equal = table[cta, warp, step, 3], table[cta, warp, step, 4], table[cta, warp, step, 5]
        cuda.syncwarp()  # no lane is ahead of the one that draws
        if kind == SYNC:
            ptx.barrier_sync(1 + place, 32 * number)
        elif kind == ARRIVE:
            ptx.barrier_arrive(1 + place, 32 * number)
        elif lane == 0 and (
            register < 0 or (register == 0 and (first == value) == (equal == 1))
            or (register == 1 and (second == value) == (equal == 1))
        ):  # fmt: skip
            if kind in (DRAW, LOOK):
                if place == 1:
                    cuda.threadfence()
                got = cuda.atomic.add(counter, 0, 1 if kind == DRAW else 0)
                if place == 1:
                    cuda.threadfence()
                if number == 0:
                    first = got
                else:
                    second = got
            elif kind == ADD:
                ptx.mbarrier_arrive(bars, place)
            elif kind == DROP:
                ptx.mbarrier_arrive_drop(bars, place)
            elif kind == EXPECT_ARRIVE:
                ptx.mbarrier_arrive_expect_tx(bars, place, number)
            elif kind == EXPECT:
                ptx.mbarrier_expect_tx(bars, place, number)
            elif kind == WAIT:
                while not ptx.mbarrier_try_wait_parity(bars, place, number):
                    pass
            elif kind == PEEK:
                if not ptx.mbarrier_test_wait_parity(bars, place, number):
                    while not ptx.mbarrier_test_wait_parity(bars, place, number):
                        pass
            elif kind == LOAD:
                ptx.cp_async_bulk_global_to_shared(tile, (number, 0), source, 0, 16, bars, place)
            elif kind == COPY:
                ptx.cp_async_ca(tile, (place, 0), source, 0, 16)
                ptx.cp_async_commit_group()
            elif kind == INC:
                ptx.cp_async_mbarrier_arrive(bars, place)
            elif kind == NOINC:
                ptx.cp_async_mbarrier_arrive_noinc(bars, place)
            elif kind == COPIED:
                if place == 0:
                    ptx.cp_async_wait_group(0)
                else:
                    ptx.cp_async_wait_group(1)
            elif kind == READ:
                if place >= GLOBAL:
                    total += memory[place - GLOBAL]
                else:
                    total += tile[place, 0]
            elif kind == WRITE:
                if place >= GLOBAL:
                    memory[place - GLOBAL] = float32(step)
                else:
                    tile[place, 0] = float32(step)
            elif kind == FENCE:
                ptx.fence_proxy_async()
    if lane == 0:
        sink[cta, warp] = total


def check_steered(program: Steered, engine: Engine = "vm") -> wsemu.Report:
    """wsemu's report of a program."""
    warps, steps = max(map(len, program.threads)), max(len(line) for lines in program.threads for line in lines)
    table = np.zeros((len(program.threads), warps, max(1, steps), 6), int32)
    for c, lines in enumerate(program.threads):
        for t, line in enumerate(lines):
            for k, (step, register, value, equal) in enumerate(line):
                table[c, t, k] = KINDS.index(step.kind), step.place, step.number, register, value, equal
    counts = np.zeros((len(program.threads), MBARRIERS), int32)
    for c, own in enumerate(program.counts):
        counts[c, : len(own)] = own
    sink = np.zeros((len(program.threads), warps), float32)
    given = table, counts, np.ones(4, float32), np.zeros(1, int32), np.zeros(PLACES, float32), sink
    return wsemu.check(interpreter, len(program.threads), 32 * warps, given, engine=engine)


# -- what a program can do --------------------------------------------------------------------------------------------
class Drawing(Explorer):
    """Interleavings in which the counter gives the numbers that the steps name."""

    def step(self, state: State, thread: int, at: int) -> State | None:
        kind, _, number = self.program.threads[thread][at]
        if kind not in DRAWS:
            return super().step(state, thread, at)
        if number != self._drawn(state):
            return None
        return state._replace(at=(*state.at[:thread], at + 1, *state.at[thread + 1 :]))

    def _drawn(self, state: State) -> int:
        return sum(s.kind == "D" for at, steps in zip(state.at, self.program.threads, strict=True) for s in steps[:at])

    def _ended(self, state: State) -> None:
        waiting = {thread for named in state.named for thread in named.waiting}
        if not any(
            at < len(steps) and steps[at].kind in DRAWS and thread not in waiting
            for thread, (at, steps) in enumerate(zip(state.at, self.program.threads, strict=True))
        ):  # a draw that stands would get another number
            super()._ended(state)


class DrawnOrder(Order):
    """What comes before what, with the counter."""

    in_time = False
    """whether a number tells what was earlier, too"""

    def _edges(self) -> Iterator[tuple[Node, Node]]:
        yield from super()._edges()
        draws = [(node, self.threads[node[0]][node[1]]) for node in self.nodes if self.kind(node) in DRAWS]
        for (one, gave), (other, got) in itertools.permutations(draws, 2):
            if gave.kind == "D" and gave.number < got.number and (self.in_time or gave.place == got.place == 1):
                yield one, (other[0], other[1] + 1)


class Outlook(NamedTuple):
    """What goes wrong for some numbers; whether all were looked at."""

    faults: frozenset[str]
    known: bool
    outcomes: int
    """in how many ways it may go on"""
    same: bool = False
    """stores that nothing orders, all of one value: where atomics steer, they may stay a race (docs/limits.md)"""


def outlook(program: Steered) -> Outlook:
    faults, outcomes, same = set[str](), 0, False
    for resolved in map(without_empty, _resolved(program)):
        explorer = Drawing(resolved)
        barriers = explorer.explore()
        if not explorer.known:
            return Outlook(frozenset(), known=False, outcomes=0)
        outcomes += bool(barriers or explorer.completes)
        faults |= barriers
        if not barriers and explorer.completes:
            order = DrawnOrder(resolved, explorer.phase)
            found, _ = order.faults()
            same |= order.same
            late, *_ = DrawnOrder(resolved, explorer.phase).at_the_end(None)
            faults |= found | late
    return Outlook(frozenset(faults), True, outcomes, same)


def _resolved(program: Steered) -> Iterator[Program]:
    """The programs that a program is, for all numbers that its draws may give: draws have them for their number."""
    counts = tuple(n for own in program.counts for n in own)
    lines = [line for own in program.threads for line in own]
    starts = [*itertools.accumulate(map(len, program.counts), initial=0)]
    ctas = [c for c, own in enumerate(program.threads) for _ in own]
    most = sum(step.step.kind == "D" for line in lines for step in line)
    seen = set[tuple[tuple[Step, ...], ...]]()
    for made in itertools.product(*(_ways(line, most) for line in lines)):
        drawn = [step.number for line in made for step in line if step.kind == "D"]
        if len({*drawn}) < len(drawn):
            continue
        threads = tuple(tuple(_placed(step, c, starts[c]) for step in line) for c, line in zip(ctas, made, strict=True))
        if threads not in seen:
            seen.add(threads)
            yield Program(counts, threads)


def _ways(line: Line, most: int) -> list[tuple[Step, ...]]:
    """What a thread does, for all that it may get: numbers below `most`, and of a look up to it."""
    ways: list[tuple[tuple[Step, ...], dict[int, int]]] = [((), {})]
    for guarded in line:
        step, following = guarded.step, list[tuple[tuple[Step, ...], dict[int, int]]]()
        for made, got in ways:
            if not guarded.holds(got):
                following.append((made, got))
            elif step.kind in DRAWS:
                for n in range(most + (step.kind == "L")):
                    following.append(((*made, step._replace(number=n)), {**got, step.number: n}))
            else:
                following.append(((*made, step), got))
        ways = following
    return [made for made, _ in ways]


def _placed(step: Step, cta: int, start: int) -> Step:
    """A step as it is among those of all CTAs: mbarriers, variables and barriers of each have numbers of their own."""
    if step.kind in MEETINGS:
        return step._replace(place=step.place + cta * NAMED)
    if step.kind in "adxewpin":
        return step._replace(place=step.place + start)
    if step.kind == "T":
        return step._replace(place=step.place + start, number=step.number + cta * VARIABLES)
    if step.kind in "gRW" and step.place < GLOBAL:
        return step._replace(place=step.place + cta * VARIABLES)
    return step


# -- random ones ------------------------------------------------------------------------------------------------------
def steered(random: Random) -> Steered:
    """One or two CTAs, which may do the same, whose threads draw numbers."""
    while True:
        ctas = random.choice((1, 1, 2))
        made = [_cta(random) for _ in range(ctas)]
        if ctas == 2 and random.random() < 0.5:
            made[1] = made[0]
        threads = [line for _, lines in made for line in lines]
        draws = [step.step.kind for line in threads for step in line if step.step.kind in DRAWS]
        if "D" in draws and len(draws) <= MOST_DRAWS and sum(map(len, threads)) <= MOST_STEPS:
            return Steered(tuple(counts for counts, _ in made), tuple(tuple(lines) for _, lines in made))


def _cta(random: Random) -> tuple[tuple[int, ...], list[Line]]:
    """A program without draws, into which some are put."""
    program = random.choice((ring, ring, mixed))(random)
    lines = [[Guarded(step) for step in steps if step.kind in KINDS] for steps in program.threads]
    for _ in range(random.choice((1, 2, 2))):
        _draw(random, random.choice(lines))
    return program.counts, [tuple(line) for line in lines]


def _draw(random: Random, line: list[Guarded]) -> None:
    """Put a draw somewhere, and let some of what follows depend on it."""
    at, register = random.randrange(0, len(line) + 1), random.randrange(0, REGISTERS)
    kind = random.choice("DDDL")
    rest = line[at:]
    start = random.randrange(0, len(rest) + 1)
    chosen = rest[start : start + random.randrange(1, 4)]
    end = rest[start + len(chosen) :]
    value, equal = random.randrange(0, 2), random.random() < 0.7
    if random.random() < 0.3:
        chosen.insert(random.randrange(0, len(chosen) + 1), Guarded(_harmless(random)))
    guarded = (register, value, equal), (register, value, not equal)
    one, other = (
        [step if step.step.kind in MEETINGS else Guarded(step.step, *by) for step in chosen] for by in guarded
    )
    other = [step for step in other if step.step.kind not in MEETINGS]  # all of a warp meet, whatever one lane has
    how = random.random()
    if how < 0.35:  # the same both ways, or nearly
        if random.random() < 0.5 and other:
            del other[random.randrange(0, len(other))]
        chosen = [*one, *other]
    elif how < 0.7:
        chosen = [
            *chosen[: len(chosen) // 2],
            Guarded(_harmless(random), register, value, equal),
            *chosen[len(chosen) // 2 :],
        ]
    else:
        chosen = one
    line[at:] = [Guarded(Step(kind, random.randrange(0, 2), register)), *rest[:start], *chosen, *end]


def _harmless(random: Random) -> Step:
    """What may or may not matter: a plain access, or a fence."""
    kind = random.choice("RRWP")
    place = random.choice((random.randrange(0, VARIABLES), GLOBAL + random.randrange(0, 2)))
    return Step(kind) if kind == "P" else Step(kind, place)


STEERED_FAMILIES: Final[dict[str, Callable[[Random], Steered]]] = {"steered": steered}


# -- judging ----------------------------------------------------------------------------------------------------------
class JudgedSteered(NamedTuple):
    """A program, what it can do, what was said of it by engine, and every disagreement."""

    text: str
    outlook: Outlook
    verdicts: tuple[str, ...]
    complaints: list[str]

    def __str__(self) -> str:
        return "\n".join([self.text, *(f"    {line}" for line in self.complaints)])


def judged_steered(program: Steered, engines: tuple[Engine, ...]) -> JudgedSteered:
    """Compare wsemu with enumeration, and the engines with each other; `incomplete` is no answer."""
    can = outlook(program)
    complaints, said = list[str](), list[tuple[str, frozenset[str]]]()
    shown = ", ".join(sorted(can.faults)) or "no fault"
    for engine in engines if can.known else ():
        report = check_steered(program, engine)
        errors = frozenset(finding.code for finding in report.findings if finding.severity == "error")
        said.append((report.verdict, errors))
        named = ", ".join(sorted(errors)) or "nothing"
        if report.verdict == "verified" and can.faults:
            complaints.append(f"{engine}: verified, and the interleavings show {shown}")
        if report.verdict == "failed" and not can.faults and not errors <= HARMLESS | ({RACE} if can.same else set()):
            complaints.append(f"{engine}: found {named}, and the interleavings show {shown}")
    if len({*said}) > 1:
        complaints.append(f"the engines differ: {said}")
    return JudgedSteered(str(program), can, tuple(verdict for verdict, _ in said), complaints)


def smaller_steered(program: Steered, fails: Callable[[Steered], bool]) -> Steered:
    """A part of a program that fails, none of whose steps can be left out."""
    for less in _parts(program):
        if fails(less):
            return smaller_steered(less, fails)
    return program


def _parts(program: Steered) -> Iterable[Steered]:
    for c, lines in enumerate(program.threads):
        for t, line in enumerate(lines):
            for k in range(len(line)):
                fewer = (*lines[:t], (*line[:k], *line[k + 1 :]), *lines[t + 1 :])
                yield program._replace(threads=(*program.threads[:c], fewer, *program.threads[c + 1 :]))
