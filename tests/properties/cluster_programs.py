"""Programs of phase_programs.py whose threads are spread over the CTAs of a cluster, and the kernel that executes them.

What their interleavings show does not depend on which CTA a thread, an mbarrier or a variable is in: phase_explorer.py
tells it, but for what must be over before a CTA ends.  A wait wants its mbarrier in its own CTA, `cp.async`, its
arrivals and bulk stores want both sides there, a bulk load its variable beside its mbarrier, and a copy between CTAs
its source in its own and its target in another one; what cannot be placed so is left out.  The cluster's barrier is a
named barrier of all threads there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy import float32, int32, uint64

import wsemu
from tests.properties.phase_explorer import CREDITS, VARIABLES, Program, Step, Where
from tests.properties.phase_programs import KINDS, MBARRIERS, JudgedPhases, judged_phases, mixed, ring
from wsemu import cuda, ptx

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.properties.programs import Random
    from wsemu.model.settings import Engine

(ADD, DROP, EXPECT_ARRIVE, EXPECT, WAIT, PEEK, LOAD, COPY, INC, NOINC, COPIED, OUT, OVER_OUT, READ_OUT, READ, WRITE,
 FENCE, SYNC, _, SEND, SYNC_RELAXED) = range(1, 1 + KINDS.index("Z"))  # fmt: skip
MEETING: Final = 7
"""the named barrier that represents that of the cluster"""


@cuda.jit
def interpreter(table, counts, homes, places, source, sink):
    """Return a kernel in which each CTA of a warp runs a line of the table in its first lane; `homes` and `places` are
    the ranks of the CTAs of mbarriers and variables."""
    bars = cuda.shared.array(MBARRIERS, uint64)
    tile = cuda.shared.array((VARIABLES, 4), float32)
    rank, lane = ptx.cluster_ctarank(), cuda.threadIdx.x
    if lane == 0:
        for b in range(MBARRIERS):
            if counts[b] > 0 and homes[b] == rank:
                ptx.mbarrier_init(bars, b, counts[b])
        for v in range(VARIABLES):
            for k in range(4):
                tile[v, k] = 0
        ptx.fence_proxy_async()
    ptx.cluster_sync()
    total = float32(0)
    for step in range(table.shape[1]):
        kind, place, number = table[rank, step, 0], table[rank, step, 1], table[rank, step, 2]
        if kind == SYNC:
            ptx.cluster_sync()
        elif kind == SYNC_RELAXED:
            ptx.cluster_arrive_relaxed()
            ptx.cluster_wait()
        elif lane == 0:
            if kind == ADD:
                ptx.mbarrier_arrive_cluster(ptx.mapa(bars, homes[place]), place)
            elif kind == DROP:
                ptx.mbarrier_arrive_drop_cluster(ptx.mapa(bars, homes[place]), place)
            elif kind == EXPECT_ARRIVE:
                ptx.mbarrier_arrive_expect_tx_cluster(ptx.mapa(bars, homes[place]), place, number)
            elif kind == EXPECT:
                ptx.mbarrier_expect_tx_cluster(ptx.mapa(bars, homes[place]), place, number)
            elif kind == WAIT:
                while not ptx.mbarrier_try_wait_parity(bars, place, number):
                    pass
            elif kind == PEEK:
                if not ptx.mbarrier_test_wait_parity(bars, place, number):
                    while not ptx.mbarrier_test_wait_parity(bars, place, number):
                        pass
            elif kind == LOAD:
                to, told = ptx.mapa(tile, places[number]), ptx.mapa(bars, homes[place])
                ptx.cp_async_bulk_global_to_shared(to, (number, 0), source, 0, 16, told, place)
            elif kind == SEND:
                goal = number // VARIABLES
                to, told = ptx.mapa(tile, places[goal]), ptx.mapa(bars, homes[place])
                ptx.cp_async_bulk_shared_to_cluster(to, (goal, 0), tile, (number % VARIABLES, 0), 16, told, place)
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
                ptx.cp_async_bulk_shared_to_global(sink, (1 + rank, 4 * place), tile, (place, 0), 16)
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
                total += ptx.mapa(tile, places[place])[place, 0]
            elif kind == WRITE:
                ptx.mapa(tile, places[place])[place, 0] = float32(step)
            elif kind == FENCE:
                ptx.fence_proxy_async()
    if lane == 0:
        sink[0, rank] = total


class Spread(NamedTuple):
    """The locations of a program's mbarriers and variables, as ranks of CTAs; thread t is in CTA t."""

    program: Program
    homes: tuple[int, ...]
    places: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.program} @ {' '.join(map(str, self.homes))} / {' '.join(map(str, self.places))}"


def check_spread(spread: Spread, engine: Engine = "vm") -> wsemu.Report:
    """Return wsemu's report on a program."""
    program = spread.program
    threads = len(program.threads)
    table = np.zeros((threads, max(1, *map(len, program.threads)), 3), int32)
    for t, steps in enumerate(program.threads):
        for k, step in enumerate(steps):
            table[t, k] = KINDS.index(step.kind), step.place, step.number
    counts, homes = np.zeros(MBARRIERS, int32), np.zeros(MBARRIERS, int32)
    counts[: len(program.counts)], homes[: len(spread.homes)] = program.counts, spread.homes
    places = np.array(spread.places, int32)
    source, sink = np.ones(4, float32), np.zeros((1 + threads, 4 * VARIABLES), float32)
    arguments = table, counts, homes, places, source, sink
    return wsemu.check(interpreter, threads, 32, arguments, cluster=threads, engine=engine)


def spread(random: Random, program: Program) -> Spread | None:
    """Return a program with its objects placed, and meetings of all threads, usually one at the end; None if its steps
    require one of them in two CTAs."""
    program = _with_meetings(random, _with_sends(random, program))
    homes: list[set[int]] = [set() for _ in program.counts]
    places: list[set[int]] = [set() for _ in range(VARIABLES)]
    for t, steps in enumerate(program.threads):
        for step in steps:
            if step.kind in "wpin":
                homes[step.place].add(t)
            elif step.kind in "gO":
                places[step.place].add(t)
            elif step.kind == "V":
                places[step.number % VARIABLES].add(t)
    if any(len(wanted) > 1 for wanted in (*homes, *places)):
        return None
    some = [next(iter(wanted), None) for wanted in homes]
    where = [next(iter(wanted), None) for wanted in places]
    copies = [(t, step) for t, steps in enumerate(program.threads) for step in steps if step.kind in CREDITS]
    loads = {(step.place, _goal(step)) for _, step in copies}
    for _ in range(len(loads) + 1):
        for b, v in loads:
            some[b] = where[v] if some[b] is None else some[b]
            where[v] = some[b] if where[v] is None else where[v]
    ranks = [random.randrange(0, len(program.threads)) for _ in range(len(some) + len(where))]
    fixed = [rank if at is None else at for at, rank in zip([*some, *where], ranks, strict=True)]
    for b, v in loads:  # of those that nothing fixed
        if some[b] is None:
            fixed[b] = fixed[len(some) + v] = 0
    if any(fixed[b] != fixed[len(some) + v] for b, v in loads):
        return None
    if any(step.kind == "V" and fixed[step.place] == t for t, step in copies):
        return None
    return Spread(program, tuple(fixed[: len(some)]), tuple(fixed[len(some) :]))


def _goal(step: Step) -> int:
    """Return the variable that a bulk copy writes."""
    return step.number // VARIABLES if step.kind == "V" else step.number


def _with_sends(random: Random, program: Program) -> Program:
    """In some programs, replace loads by copies between CTAs, from a variable that is written for them."""
    if random.random() < 0.6:
        return program
    source = random.randrange(0, VARIABLES)
    threads = []
    for steps in program.threads:
        made: list[Step] = []
        for step in steps:
            if step.kind == "T" and step.number != source and random.random() < 0.8:
                made += [Step("W", source), Step("P")] if random.random() < 0.3 else []
                step = Step("V", step.place, source + VARIABLES * step.number)
            made.append(step)
        threads.append(tuple(made))
    return program._replace(threads=tuple(threads))


def _with_meetings(random: Random, program: Program) -> Program:
    """Without named barriers; all threads meet as often, mostly at the end besides, some with relaxed arrives."""
    threads = [[step for step in steps if step.kind not in "SA"] for steps in program.threads]
    relaxed = random.random() < 0.3

    def meeting() -> Step:
        return Step("Z" if relaxed and random.random() < 0.6 else "S", MEETING, len(threads))

    for _ in range(random.choice((0, 0, 1, 2))):
        for steps in threads:
            steps.insert(random.randrange(0, len(steps) + 1), meeting())
    if random.random() < 0.85:
        for steps in threads:
            steps.append(meeting())
    return program._replace(threads=tuple(map(tuple, threads)))


def clustered(random: Random) -> Spread:
    """Return a ring or random steps, spread over 2 or 3 CTAs."""
    while True:
        program = ring(random) if random.random() < 0.75 else mixed(random)
        if len(program.threads) > 1 and (found := spread(random, program)):
            return found


def judged_clusters(
    found: Spread, engines: tuple[Engine, ...], check: Callable[[Spread, Engine], wsemu.Report] = check_spread
) -> JudgedPhases:
    """Compare wsemu with enumeration."""

    def checked(_: Program, engine: Engine) -> wsemu.Report:
        return check(found, engine)

    judged = judged_phases(found.program, engines, checked, Where(found.homes, found.places))
    return judged._replace(text=str(found))


CLUSTER_FAMILIES: Final[dict[str, Callable[[Random], Spread]]] = {"clustered": clustered}
