"""Random programs of mbarriers and copies (see phase_explorer.py), and the kernel that executes them.

`ring` programs are producers and consumers with full and empty mbarriers, filled in one of five ways; `mixed` programs
are random steps.  In `kept` programs, threads test phases before they wait for them; in `renewed` ones, tokens and
results of tests are used after the mbarrier was initialized again.  Rings get up to two random edits, so that about
half are correct and most others only just fail.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy import float32, int32, uint64

import wsemu
from tests.properties.phase_explorer import (
    ARRIVALS,
    DEADLOCK,
    LIFETIME,
    MISMATCH,
    NO_TOKEN,
    OUTLIVES,
    OVER,
    PROXY,
    RACE,
    SIZE,
    TOO_LATE,
    VARIABLES,
    Outlook,
    Program,
    Step,
    Where,
    outlook,
)
from wsemu import cuda, ptx

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.properties.programs import Random
    from wsemu.model.settings import Engine

THREADS: Final = 3
MBARRIERS: Final = 4
LONGEST: Final = 16
"""operations of a program, about"""
KINDS: Final = " adxewpTginCOGQRWPSAVZkutvcDB"
"""a step's kind, as a number in the table that the kernel reads; 0: the thread ends"""
(ADD, DROP, EXPECT_ARRIVE, EXPECT, WAIT, PEEK, LOAD, COPY, INC, NOINC, COPIED, OUT, OVER_OUT, READ_OUT, READ, WRITE,
 FENCE, SYNC, ARRIVE, SEND, SYNC_RELAXED, KEEP, GUARDED, TOKEN, TOKEN_WAIT, CHANGE, INVAL,
 INIT) = range(1, len(KINDS))  # fmt: skip


@cuda.jit
def interpreter(table, counts, source, sink):
    """Each warp runs a line of the table in its first lane; named barriers are met by all of it.

    An expectation of no bytes at an odd step is a completion of no bytes: both do the same.
    """
    bars = cuda.shared.array(MBARRIERS, uint64)
    tile = cuda.shared.array((VARIABLES, 4), float32)
    warp, lane = cuda.threadIdx.x // 32, cuda.threadIdx.x % 32
    if cuda.threadIdx.x == 0:
        for b in range(MBARRIERS):
            if counts[b] > 0:
                ptx.mbarrier_init(bars, b, counts[b])
        for v in range(VARIABLES):
            for k in range(4):
                tile[v, k] = 0
        ptx.fence_proxy_async()
    cuda.syncthreads()
    total = float32(0)
    kept = False
    first = second = uint64(0)
    for step in range(table.shape[1]):
        kind, place, number = table[warp, step, 0], table[warp, step, 1], table[warp, step, 2]
        if kind == SYNC:
            ptx.barrier_sync(1 + place, 32 * number)
        elif kind == ARRIVE:
            ptx.barrier_arrive(1 + place, 32 * number)
        elif lane == 0:
            if kind == ADD:
                ptx.mbarrier_arrive(bars, place)
            elif kind == DROP:
                ptx.mbarrier_arrive_drop(bars, place)
            elif kind == EXPECT_ARRIVE:
                ptx.mbarrier_arrive_expect_tx(bars, place, number)
            elif kind == EXPECT and number == 0 and step % 2 == 1:
                ptx.mbarrier_complete_tx(bars, place, 0)
            elif kind == EXPECT:
                ptx.mbarrier_expect_tx(bars, place, number)
            elif kind == WAIT:
                while not ptx.mbarrier_try_wait_parity(bars, place, number):
                    pass
            elif kind == PEEK:
                if not ptx.mbarrier_test_wait_parity(bars, place, number):
                    while not ptx.mbarrier_test_wait_parity(bars, place, number):
                        pass
            elif kind == KEEP:
                kept = ptx.mbarrier_test_wait_parity(bars, place, number)
            elif kind == GUARDED:
                if not kept:
                    while not ptx.mbarrier_test_wait_parity(bars, place, number):
                        pass
            elif kind == TOKEN:
                token = ptx.mbarrier_arrive(bars, place)
                if number == 0:
                    first = token
                else:
                    second = token
            elif kind == TOKEN_WAIT:
                token = first if number == 0 else second
                while not ptx.mbarrier_test_wait(bars, place, token):
                    pass
            elif kind == CHANGE:
                token = first if place == 0 else second
                if number == 0:
                    token += uint64(1)
                elif number == 1:
                    token ^= uint64(1 << 63)
                else:
                    token = uint64(0)
                if place == 0:
                    first = token
                else:
                    second = token
            elif kind == INVAL:
                ptx.mbarrier_inval(bars, place)
            elif kind == INIT:
                ptx.mbarrier_init(bars, place, number)
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
            elif kind == OUT:
                ptx.cp_async_bulk_shared_to_global(sink, (1 + warp, 4 * place), tile, (place, 0), 16)
                ptx.cp_async_bulk_commit_group()
            elif kind == OVER_OUT:
                if place == 0:
                    ptx.cp_async_bulk_wait_group(0)
                else:
                    ptx.cp_async_bulk_wait_group(1)
            elif kind == READ_OUT:
                if place == 0:
                    ptx.cp_async_bulk_wait_group_read(0)
                else:
                    ptx.cp_async_bulk_wait_group_read(1)
            elif kind == READ:
                total += tile[place, 0]
            elif kind == WRITE:
                tile[place, 0] = float32(step)
            elif kind == FENCE:
                ptx.fence_proxy_async()
    if lane == 0:
        sink[0, warp] = total


def check_program(program: Program, engine: Engine = "vm") -> wsemu.Report:
    """wsemu's report of a program."""
    table = np.zeros((len(program.threads), max(1, *map(len, program.threads)), 3), int32)
    for t, steps in enumerate(program.threads):
        for k, step in enumerate(steps):
            table[t, k] = KINDS.index(step.kind), step.place, step.number
    counts = np.zeros(MBARRIERS, int32)
    counts[: len(program.counts)] = program.counts
    source, sink = np.ones(4, float32), np.zeros((1 + THREADS, 4 * VARIABLES), float32)
    return wsemu.check(interpreter, 1, 32 * len(program.threads), (table, counts, source, sink), engine=engine)


# -- families ---------------------------------------------------------------------------------------------------------


def ring(random: Random) -> Program:
    """One producer and one or two consumers, `stages` tiles of which are under way at once."""
    stages, consumers = random.choice((1, 1, 2)), random.choice((1, 1, 2))
    how = random.choice(("plain", "bulk", "bulk", "expect first", "noinc", "inc"))
    first_waits = random.random() < 0.8
    wait = random.choice(("w", "w", "p"))
    tiles = random.randrange(1, LONGEST // (3 * consumers + 3) + 2)
    producer: list[Step] = []
    others: list[list[Step]] = [[] for _ in range(consumers)]
    for tile in range(tiles):
        s, turn = tile % stages, tile // stages
        if first_waits or turn:
            producer.append(Step(wait, stages + s, (turn & 1) ^ 1))
        producer += _filled(how, s, random)
        for steps in others:
            steps += [Step(wait, s, turn & 1), Step("R", s), Step("a", stages + s)]
    if random.random() < 0.3:
        _stored(random, others[0], stages)
    counts = (*(1 for _ in range(stages)), *(consumers for _ in range(stages)))
    return _edited(random, counts, [producer, *others])


def _filled(how: str, stage: int, random: Random) -> list[Step]:
    """What fills a stage and says so."""
    fence = [Step("P")] * (random.random() < 0.2)
    return {
        "plain": [Step("W", stage), *fence, Step("a", stage)],
        "bulk": [*fence, Step("x", stage, SIZE), Step("T", stage, stage)],
        "expect first": [Step("e", stage, SIZE), Step("T", stage, stage), Step("a", stage)],
        "noinc": [Step("g", stage), Step("n", stage)],
        "inc": [Step("g", stage), Step("i", stage), Step("a", stage)],
    }[how]


def _stored(random: Random, steps: list[Step], stages: int) -> None:
    """The consumer writes its result into another variable, and has it stored."""
    v = stages if stages < VARIABLES else 0
    steps += [Step("W", v), *[Step("P")] * (random.random() < 0.8), Step("O", v), Step(random.choice("GQ"), 0)]


def mixed(random: Random) -> Program:
    """Random steps of 1 to 3 threads on 1 or 2 mbarriers and a named barrier."""
    threads, mbarriers = random.randrange(1, THREADS + 1), random.randrange(1, 3)
    counts = tuple(random.randrange(1, threads + 1) for _ in range(mbarriers))
    made = [
        [_random_step(random, mbarriers, threads) for _ in range(random.randrange(1, LONGEST // threads))]
        for _ in range(threads)
    ]
    return Program(counts, tuple(map(tuple, made)))


def leaving(random: Random) -> Program:
    """Threads that leave an mbarrier one after the other, and operations of size 0 beside it, which come in time or
    late."""
    threads, mbarriers = random.randrange(1, THREADS + 1), random.choice((1, 1, 2))
    counts = (threads, *(random.randrange(1, threads + 1) for _ in range(mbarriers - 1)))
    made: list[list[Step]] = []
    for _ in range(threads):
        steps = list[Step]()
        rounds = random.choice((0, 1, 1, 2))
        for turn in range(rounds):
            steps += [Step(random.choice("aax"), 0, 0), Step("w", 0, turn & 1)]
        steps.append(Step("d", 0))
        if random.random() < 0.6:
            steps.append(Step("w", 0, rounds & 1))
        for _ in range(random.choice((0, 1, 1, 2))):
            steps.insert(random.randrange(0, len(steps) + 1), Step("e", random.randrange(0, mbarriers), 0))
        if mbarriers > 1 and random.random() < 0.7:
            steps.insert(random.randrange(0, len(steps) + 1), Step("a", 1))
            if random.random() < 0.5:
                steps.insert(random.randrange(0, len(steps) + 1), Step("w", 1, 0))
        made.append(steps)
    return _edited(random, counts, made)


def kept(random: Random) -> Program:
    """A program of another family whose threads test phases some steps before they wait for them."""
    program = random.choice((ring, ring, ring, mixed))(random)
    threads = []
    for steps in program.threads:
        made: list[Step] = []
        last = 0
        for step in steps:
            if step.kind in "wp" and random.random() < 0.7:
                place, parity = step.place, step.number
                if random.random() < 0.08:
                    place = random.randrange(0, len(program.counts))
                if random.random() < 0.05:
                    parity ^= 1
                early = random.randrange(0, 6)
                made.insert(max(last, len(made) - early), Step("k", place, parity))
                made.append(Step("u", step.place, step.number))
                last = len(made)
            else:
                made.append(step)
        threads.append(made)
    return Program(program.counts, tuple(map(tuple, threads)))


def renewed(random: Random) -> Program:
    """Threads that arrive on an mbarrier and wait for the phases of their tokens; it is initialized again in between,
    and some results and tokens are used after that."""
    threads, counts = random.randrange(1, THREADS + 1), [0, 0]
    counts[:] = (threads, random.randrange(1, threads + 1)) if random.random() < 0.5 else (threads,)
    made: list[list[Step]] = [[] for _ in range(threads)]
    lives = random.choice((1, 2, 2, 2, 3))
    for life in range(lives):
        rounds = random.choice((1, 1, 2))
        for steps in made:
            for turn in range(rounds):
                number = random.randrange(0, 2)
                steps.append(Step("t", 0, number))
                if random.random() < 0.3:
                    steps.append(Step("k", 0, turn & 1))
                if random.random() < 0.08:
                    steps.append(Step("c", number, random.randrange(0, 3)))
                how, used = random.random(), number if random.random() < 0.9 else number ^ 1
                steps.append(Step("v", 0, used) if how < 0.6 else Step("u" if how < 0.85 else "w", 0, turn & 1))
        if life + 1 < lives:
            for t, steps in enumerate(made):
                steps.append(Step("S", 0, threads))
                steps += [Step("D", 0), Step("B", 0, threads)] * (t == 0)
                steps.append(Step("S", 0, threads))
                if random.random() < 0.1:
                    steps.append(Step("v", 0, random.randrange(0, 2)))
    program = _edited(random, tuple(counts), made)
    return program._replace(threads=tuple(map(_changed_once, program.threads)))


def _changed_once(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """The steps without changes of a token after its first one, which might make it a token again."""
    first = {number: k for k, (kind, number, _) in reversed([*enumerate(steps)]) if kind == "c"}
    return tuple(step for k, step in enumerate(steps) if step.kind != "c" or first[step.place] == k)


def _random_step(random: Random, mbarriers: int, threads: int) -> Step:
    kind = random.choice("aaaxwwwwpdeTTginCOGRWPSA")
    place = random.randrange(0, mbarriers)
    variable = random.randrange(0, VARIABLES)
    return {
        "x": Step(kind, place, SIZE * random.randrange(0, 2)), "e": Step(kind, place, SIZE),
        "w": Step(kind, place, random.randrange(0, 2)), "p": Step(kind, place, random.randrange(0, 2)),
        "T": Step(kind, place, variable), "P": Step(kind),
        "C": Step(kind, random.randrange(0, 2)), "G": Step(kind, random.randrange(0, 2)),
        "S": Step(kind, 0, threads), "A": Step(kind, 0, threads),
        **{k: Step(kind, variable) for k in "gORW"}, **{k: Step(kind, place) for k in "adin"},
    }[kind]  # fmt: skip


def _edited(random: Random, counts: tuple[int, ...], made: list[list[Step]]) -> Program:
    """The program after 0 to 2 edits; nothing is done in about half of the cases."""
    kept = list(counts)
    if random.random() < 0.55:
        for _ in range(random.randrange(1, 3)):
            steps = random.choice(made)
            if steps:
                random.choice(EDITS)(random, steps, kept, len(made))
    return Program(tuple(kept), tuple(map(tuple, made)))


def _remove(random: Random, steps: list[Step], counts: list[int], threads: int) -> None:
    del steps[random.randrange(0, len(steps))]


def _swap(random: Random, steps: list[Step], counts: list[int], threads: int) -> None:
    k = random.randrange(0, len(steps))
    steps[k : k + 2] = steps[k : k + 2][::-1]


def _repeat(random: Random, steps: list[Step], counts: list[int], threads: int) -> None:
    k = random.randrange(0, len(steps))
    steps.insert(k, steps[k])


def _insert(random: Random, steps: list[Step], counts: list[int], threads: int) -> None:
    steps.insert(random.randrange(0, len(steps) + 1), _random_step(random, len(counts), threads))


def _other_number(random: Random, steps: list[Step], counts: list[int], threads: int) -> None:
    """Another parity, or other bytes."""
    chosen = [k for k, step in enumerate(steps) if step.kind in "wpxe"]
    if chosen:
        k = random.choice(chosen)
        step = steps[k]
        number = step.number ^ 1 if step.kind in "wp" else SIZE * random.randrange(0, 3)
        steps[k] = step._replace(number=number)


def _other_place(random: Random, steps: list[Step], counts: list[int], threads: int) -> None:
    chosen = [k for k, step in enumerate(steps) if step.kind in "adxewpTin"]
    if chosen:
        k = random.choice(chosen)
        steps[k] = steps[k]._replace(place=random.randrange(0, len(counts)))


def _other_count(random: Random, steps: list[Step], counts: list[int], threads: int) -> None:
    counts[random.randrange(0, len(counts))] = random.randrange(1, threads + 1)


EDITS: Final[tuple[Callable[[Random, list[Step], list[int], int], None], ...]] = (
    _remove, _remove, _swap, _swap, _repeat, _insert, _other_number, _other_place, _other_count,
)  # fmt: skip
PHASE_FAMILIES: Final[dict[str, Callable[[Random], Program]]] = {
    "ring": ring, "mixed phases": mixed, "leaving": leaving, "kept": kept, "renewed": renewed,
}  # fmt: skip


# -- judgement --------------------------------------------------------------------------------------------------------

HARMLESS: Final = frozenset({"uncovered-expectation"})
"""what may be found where no interleaving fails: an expectation that nothing waits for, whose surplus is harmless"""
SURE: Final = {DEADLOCK, OVER, MISMATCH}
"""codes of what the run itself shows, so that some interleaving does"""
UNDEFINED: Final = {NO_TOKEN, LIFETIME}
"""faults after which the run may do anything"""
ACCESSES: Final = {RACE, PROXY, OUTLIVES, TOO_LATE}


class JudgedPhases(NamedTuple):
    """A program, what it can do, every disagreement, and whether it was refused although nothing can go wrong."""

    text: str
    outlook: Outlook
    complaints: list[str]
    harmless: bool

    def __str__(self) -> str:
        return "\n".join([self.text, *(f"    {line}" for line in self.complaints)])


def judged_phases(
    program: Program,
    engines: tuple[Engine, ...],
    check: Callable[[Program, Engine], wsemu.Report] = check_program,
    where: Where | None = None,
) -> JudgedPhases:
    """Compare wsemu with enumeration; `where` things are in a cluster."""
    can = outlook(program, where)
    complaints: list[str] = []
    harmless = False
    for engine in engines if can.known else ():
        report = check(program, engine)
        errors = {finding.code for finding in report.findings if finding.severity == "error"}
        named = ", ".join(sorted(errors)) or "nothing"
        shown = ", ".join(sorted(can.faults)) or "no fault"
        if can.differs:
            complaints += _judge_kept(can, engine, report)
            continue
        if report.verdict == "incomplete" or (report.verdict == "failed") != bool(errors):
            complaints.append(f"{engine}: the verdict is {report.verdict}, found {named}")
        elif bool(errors) != bool(can.faults):
            if errors <= HARMLESS and errors:
                harmless = True
            else:
                complaints.append(f"{engine}: found {named}, and the interleavings show {shown}")
        for code in errors & SURE - can.faults if can.faults.isdisjoint(UNDEFINED) and can.faults else ():
            complaints.append(f"{engine}: {code} cannot happen; the interleavings show {shown}")
        told = errors - HARMLESS - {"phase-alias"}
        also = {RACE} if can.same else set()  # stores of one value are a warning where nothing else fails
        hidden = {PROXY} if RACE in errors else set()  # what races hides what was there before
        right = (can.faults, can.faults - hidden, can.faults | also, can.faults - hidden | also)
        if can.faults and can.faults <= ACCESSES and told not in right:
            complaints.append(f"{engine}: found {named}, and the interleavings show {shown}")
        warns = any(finding.code == "proxy-war" for finding in report.findings)
        if not can.faults and not errors and warns != can.war:
            complaints.append(f"{engine}: proxy-war is {'' if warns else 'not '}found")
        warns = any(finding.code == "same-value-store" for finding in report.findings)
        if not can.faults and not errors and warns != can.same:
            complaints.append(f"{engine}: same-value-store is {'' if warns else 'not '}found")
        warns = any(finding.code == "phase-unobserved" for finding in report.findings)
        if not can.faults and not errors and warns != can.unobserved:
            complaints.append(f"{engine}: phase-unobserved is {'' if warns else 'not '}found")
        warns = any(finding.code == "store-outlives-cta" for finding in report.findings)
        if not can.faults and not errors and warns != can.stored:
            complaints.append(f"{engine}: store-outlives-cta is {'' if warns else 'not '}found")
        warns = any(finding.code == "dsmem-relaxed-exit" for finding in report.findings)
        if not can.faults and not errors and warns != can.requested:
            complaints.append(f"{engine}: dsmem-relaxed-exit is {'' if warns else 'not '}found")
    return JudgedPhases(str(program), can, complaints, harmless)


def _judge_kept(can: Outlook, engine: Engine, report: wsemu.Report) -> list[str]:
    """Complaints about the verdict on a program whose kept results may guard waits for other phases."""
    if (can.faults or can.replaces) and report.verdict == "verified":
        shown = ", ".join(sorted(can.faults)) or "that a success replaces a wait for another phase"
        return [f"{engine}: the verdict is verified, and the interleavings show {shown}"]
    return []


def smaller_phases(program: Program, fails: Callable[[Program], bool]) -> Program:
    """A part of a program that fails, none of whose steps can be left out."""
    changed = True
    while changed:
        changed = False
        for t, steps in enumerate(program.threads):
            for k in range(len(steps)):
                threads = (*program.threads[:t], (*steps[:k], *steps[k + 1 :]), *program.threads[t + 1 :])
                less = program._replace(threads=threads)
                if fails(less):
                    program, changed = less, True
                    break
            if changed:
                break
    return program


assert set(ARRIVALS) <= set(KINDS)
