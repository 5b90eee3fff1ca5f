"""Random programs of clusters and asynchronous agents, their kernels, and their notation for `ocaml/main.ml`.

    `ring`     A producer fills stages of all CTAs by a multicast, copies, `cp.async` or stores.  Consumers arrive
             remotely.
    `groups`   `cp.async` groups of several copies, and groups of bulk stores, with named barriers.
    `mixed`    Random steps of all kinds.
    `wgmma`    Warps of a warpgroup multiply the stages of a ring and release them (test_warpgroup_rings.py).

A thread is the first lane of a warp of a CTA.  mbarriers and variables are numbered through all CTAs.  Programs get up
to two random edits, so that about half are correct and most others only just fail.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy import float32, int32, uint64

import wsemu
from tests.properties.test_warpgroup_rings import BYTES, Ring
from wsemu import cuda, ptx

if TYPE_CHECKING:
    import random as library
    from collections.abc import Callable

    from wsemu.model.settings import Engine

SIZE: Final = 16
"""bytes of a variable, and of a copy"""
MBARRIERS: Final = 4
"""maximum number of mbarriers in a CTA"""
VARIABLES: Final = 3
"""number of shared variables in a CTA"""
NAMED: Final = 2
"""named barriers of a CTA"""
OUT: Final = 2
"""the variable of a CTA from which results are stored"""
KINDS: Final = " adxewpTUMckDCnioKGQRWPYZySAI"
"""the kind of a step, as a number in the table that the kernel reads; 0: the thread ends"""
(ADD, DROP, EXPECT_ARRIVE, EXPECT, WAIT, PEEK, LOAD, SEND, MULTICAST, COPY, COMMIT, COPIED_ALL, COPIED, NOINC, INC,
 STORE, COMMIT_STORES, STORED, SOURCE_READ, READ, WRITE, FENCE, ARRIVE, ARRIVE_RELAXED, AWAIT, SYNC_NAMED,
 ARRIVE_NAMED, INIT) = range(1, len(KINDS))  # fmt: skip


class Step(NamedTuple):
    """An operation of a thread, and its operands."""

    kind: str
    a: int = 0
    b: int = 0
    c: int = 0


class Launch(NamedTuple):
    """The shape of a cluster, the counts of its mbarriers, and the steps of its threads, CTA by CTA.

    An mbarrier of count 0 is initialized by a step, or not at all."""

    ctas: int
    warps: int
    counts: tuple[int, ...]
    threads: tuple[tuple[Step, ...], ...]

    def __str__(self) -> str:
        threads = (f"t{t}: {' '.join(self.written(t, s) for s in steps)}" for t, steps in enumerate(self.threads))
        return f"{' '.join(map(str, self.counts))} | {' | '.join(threads)}"

    def written(self, thread: int, step: Step) -> str:
        """Return a step in the notation of `ocaml/main.ml`."""
        kind, a, b, c = step
        if kind == "M":
            pairs = [(MBARRIERS * r + a, VARIABLES * r + b) for r in range(self.ctas) if c >> r & 1]
            return f"M({','.join(f'{bar},{to}' for bar, to in pairs)})"
        if kind == "U":
            return f"U({a},{b},{c})"
        if kind in "SA":
            return f"{kind}({NAMED * (thread // self.warps) + a},{b})"
        if kind in "axewpTI":
            return f"{kind}({a},{b})"
        return {"Z": "Y"}.get(kind, kind) if kind in "kDKPYZy" else f"{kind}({a})"

    def fits(self) -> bool:
        """Return whether each step names objects that it can reach: PTX requires some of them in its own CTA."""
        return all(self._reaches(t // self.warps, step) for t, steps in enumerate(self.threads) for step in steps)

    def _reaches(self, cta: int, step: Step) -> bool:
        kind, a, b, c = step
        if kind in "wpniI":
            return a // MBARRIERS == cta
        if kind in "co":
            return a // VARIABLES == cta
        if kind == "T":
            return a // MBARRIERS == b // VARIABLES
        if kind == "U":
            return a // MBARRIERS == c // VARIABLES != cta and b // VARIABLES == cta
        return True


@cuda.jit
def interpreter(table, counts, source, sink):  # type: ignore[no-untyped-def]  # a kernel
    """Each warp runs a line of the table in its first lane; barriers are met by all of it."""
    bars = cuda.shared.array(MBARRIERS, uint64)
    tile = cuda.shared.array((VARIABLES, 4), float32)
    rank, lane, warp = ptx.cluster_ctarank(), cuda.threadIdx.x % 32, cuda.threadIdx.x // 32
    thread = rank * (cuda.blockDim.x // 32) + warp
    if cuda.threadIdx.x == 0:
        _initialize(bars, tile, counts, rank * MBARRIERS)
    ptx.cluster_sync()
    total = float32(0)
    for step in range(table.shape[1]):
        kind, a, b, c = table[thread, step, 0], table[thread, step, 1], table[thread, step, 2], table[thread, step, 3]
        word = 4 * (step + table.shape[1] * thread)
        if ARRIVE <= kind <= ARRIVE_NAMED:
            _meet(kind, a, b)
        elif lane == 0:
            if kind == READ:
                total += ptx.mapa(tile, a // VARIABLES)[a % VARIABLES, 0]
            elif kind == WRITE:
                ptx.mapa(tile, a // VARIABLES)[a % VARIABLES, 0] = float32(word + 1)
            elif kind == FENCE:
                ptx.fence_proxy_async()
            elif kind == STORE:
                ptx.cp_async_bulk_shared_to_global(
                    sink, (1 + thread, 4 * (a % VARIABLES)), tile, (a % VARIABLES, 0), 16
                )
            else:
                _use_mbarrier(kind, a, b, bars)
                _copy(kind, a, b, c, bars, tile, source, word)
                _end_group(kind, a)
    if lane == 0:
        sink[0, thread] = total


@cuda.jit(device=True)
def _initialize(bars, tile, counts, first):  # type: ignore[no-untyped-def]
    for b in range(MBARRIERS):
        if counts[first + b] > 0:
            ptx.mbarrier_init(bars, b, counts[first + b])
    for v in range(VARIABLES):
        for k in range(4):
            tile[v, k] = 0
    ptx.fence_proxy_async()


@cuda.jit(device=True)
def _meet(kind, a, b):  # type: ignore[no-untyped-def]
    if kind == ARRIVE:
        ptx.cluster_arrive()
    elif kind == ARRIVE_RELAXED:
        ptx.cluster_arrive_relaxed()
    elif kind == AWAIT:
        ptx.cluster_wait()
    elif kind == SYNC_NAMED:
        ptx.barrier_sync(1 + a, 32 * b)
    elif kind == ARRIVE_NAMED:
        ptx.barrier_arrive(1 + a, 32 * b)


@cuda.jit(device=True)
def _use_mbarrier(kind, a, b, bars):  # type: ignore[no-untyped-def]
    if kind == ADD:
        ptx.mbarrier_arrive_cluster(ptx.mapa(bars, a // MBARRIERS), a % MBARRIERS, b)
    elif kind == DROP:
        ptx.mbarrier_arrive_drop_cluster(ptx.mapa(bars, a // MBARRIERS), a % MBARRIERS)
    elif kind == EXPECT_ARRIVE:
        ptx.mbarrier_arrive_expect_tx_cluster(ptx.mapa(bars, a // MBARRIERS), a % MBARRIERS, b)
    elif kind == EXPECT:
        ptx.mbarrier_expect_tx_cluster(ptx.mapa(bars, a // MBARRIERS), a % MBARRIERS, b)
    elif kind == WAIT:
        while not ptx.mbarrier_try_wait_parity(bars, a % MBARRIERS, b):
            pass
    elif kind == PEEK:
        if not ptx.mbarrier_test_wait_parity(bars, a % MBARRIERS, b):
            while not ptx.mbarrier_test_wait_parity(bars, a % MBARRIERS, b):
                pass
    elif kind == NOINC:
        ptx.cp_async_mbarrier_arrive_noinc(bars, a % MBARRIERS)
    elif kind == INC:
        ptx.cp_async_mbarrier_arrive(bars, a % MBARRIERS)
    elif kind == INIT:
        ptx.mbarrier_init(bars, a % MBARRIERS, b)
        ptx.fence_mbarrier_init()


@cuda.jit(device=True)
def _copy(kind, a, b, c, bars, tile, source, word):  # type: ignore[no-untyped-def]
    if kind == LOAD:
        to, full = ptx.mapa(tile, b // VARIABLES), ptx.mapa(bars, a // MBARRIERS)
        ptx.cp_async_bulk_global_to_shared(to, (b % VARIABLES, 0), source, word, 16, full, a % MBARRIERS)
    elif kind == SEND:
        to, full = ptx.mapa(tile, c // VARIABLES), ptx.mapa(bars, a // MBARRIERS)
        goal = c % VARIABLES
        ptx.cp_async_bulk_shared_to_cluster(to, (goal, 0), tile, (b % VARIABLES, 0), 16, full, a % MBARRIERS)
    elif kind == MULTICAST:
        ptx.cp_async_bulk_global_to_shared_multicast(tile, (b, 0), source, word, 16, bars, a, c)
    elif kind == COPY:
        ptx.cp_async_ca(tile, (a % VARIABLES, 0), source, word, 16)


@cuda.jit(device=True)
def _end_group(kind, a):  # type: ignore[no-untyped-def]
    """Commit a group of copies, or wait for all but `a` groups, which instructions name by a constant."""
    if kind == COMMIT:
        ptx.cp_async_commit_group()
    elif kind == COPIED_ALL:
        ptx.cp_async_wait_all()
    elif kind == COPIED:
        if a == 0:
            ptx.cp_async_wait_group(0)
        elif a == 1:
            ptx.cp_async_wait_group(1)
        else:
            ptx.cp_async_wait_group(2)
    elif kind == COMMIT_STORES:
        ptx.cp_async_bulk_commit_group()
    elif kind == STORED:
        if a == 0:
            ptx.cp_async_bulk_wait_group(0)
        else:
            ptx.cp_async_bulk_wait_group(1)
    elif kind == SOURCE_READ:
        if a == 0:
            ptx.cp_async_bulk_wait_group_read(0)
        else:
            ptx.cp_async_bulk_wait_group_read(1)


def check_launch(launch: Launch, engine: Engine = "vm") -> wsemu.Report:
    """Return wsemu's report of a program."""
    longest = max(1, *map(len, launch.threads))
    table = np.zeros((len(launch.threads), longest, 4), int32)
    for t, steps in enumerate(launch.threads):
        for k, step in enumerate(steps):
            table[t, k] = KINDS.index(step.kind), step.a, step.b, step.c
    source = np.arange(4 * longest * len(launch.threads), dtype=float32)
    sink = np.zeros((1 + len(launch.threads), max(4 * VARIABLES, len(launch.threads))), float32)
    arguments = table, np.array(launch.counts, int32), source, sink
    return wsemu.check(interpreter, launch.ctas, 32 * launch.warps, arguments, cluster=launch.ctas, engine=engine)


# -- families ---------------------------------------------------------------------------------------------------------


class Draft:
    """A program in the making."""

    def __init__(self, random: library.Random, ctas: int, warps: int) -> None:
        self.random, self.ctas, self.warps = random, ctas, warps
        self.counts = [1] * (MBARRIERS * ctas)
        self.threads: list[list[Step]] = [[] for _ in range(ctas * warps)]

    def launch(self) -> Launch:
        return Launch(self.ctas, self.warps, tuple(self.counts), tuple(map(tuple, self.threads)))

    def meet(self) -> None:
        """Let all threads meet at the cluster's barrier, mostly at the end besides."""
        draw = self.random
        arrive = "Z" if draw.random() < 0.2 else "Y"
        for _ in range(draw.choice((0, 0, 1))):
            for steps in self.threads:
                at = draw.randrange(0, len(steps) + 1)
                steps.insert(at, Step(arrive))
                steps.insert(min(len(steps), at + 1 + draw.choice((0, 0, 0, 1, 2))), Step("y"))
        if draw.random() < 0.85:
            for steps in self.threads:
                steps += [Step("Y"), Step("y")]

    def initialize(self) -> None:
        """Let a thread of each CTA initialize its mbarriers before all threads meet."""
        for t, steps in enumerate(self.threads):
            own = range(MBARRIERS * (t // self.warps), MBARRIERS * (t // self.warps + 1))
            steps[:0] = [*(Step("I", b, self.counts[b]) for b in own if not t % self.warps), Step("Y"), Step("y")]
        self.counts = [0] * len(self.counts)

    def edited(self) -> Launch:
        """Return the program after 0 to 2 edits, of which those that do not fit are left out."""
        if self.random.random() < 0.55:
            for _ in range(self.random.randrange(1, 3)):
                t = self.random.randrange(0, len(self.threads))
                before, counts = [*self.threads[t]], [*self.counts]
                self._edit(self.threads[t])
                if not self.launch().fits():
                    self.threads[t], self.counts = before, counts
        return self.launch()

    def _edit(self, steps: list[Step]) -> None:
        draw = self.random
        what = draw.choice(("remove", "remove", "swap", "swap", "repeat", "insert", "number", "place", "count"))
        if what == "count":
            self.counts[draw.randrange(0, len(self.counts))] = draw.randrange(1, len(self.threads) + 1)
        elif what == "insert":
            steps.insert(draw.randrange(0, len(steps) + 1), self.step(self.threads.index(steps)))
        elif steps:
            k = draw.randrange(0, len(steps))
            step = steps[k]
            if what == "remove":
                del steps[k]
            elif what == "swap":
                steps[k : k + 2] = steps[k : k + 2][::-1]
            elif what == "repeat":
                steps.insert(k, step)
            elif what == "number" and step.kind in "wpxe":
                steps[k] = step._replace(b=1 - step.b if step.kind in "wp" else SIZE * draw.randrange(0, 3))
            elif what == "number" and step.kind == "M":
                steps[k] = step._replace(c=draw.randrange(1, 1 << self.ctas))
            elif what == "place" and step.kind in "adxewpni":
                steps[k] = step._replace(a=draw.randrange(0, len(self.counts)))
            elif what == "place" and step.kind in "RWco":
                steps[k] = step._replace(a=draw.randrange(0, VARIABLES * self.ctas))

    def step(self, thread: int) -> Step:
        """Return a random step of a thread, which fits."""
        draw, cta = self.random, thread // self.warps
        bar, variable = draw.randrange(0, 2), draw.randrange(0, VARIABLES)
        own, mine = MBARRIERS * cta + bar, VARIABLES * cta + variable
        other = draw.randrange(0, self.ctas)
        far, there = MBARRIERS * other + bar, VARIABLES * other + variable
        kind = draw.choice("aaaxwwwwpdeTTMUckkDCCnioKGQRRWPSA")
        if kind == "U" and other == cta:
            kind = "T"
        return {
            "a": Step("a", far, 1), "d": Step("d", far), "x": Step("x", far, SIZE), "e": Step("e", far, SIZE),
            "w": Step("w", own, draw.randrange(0, 2)), "p": Step("p", own, draw.randrange(0, 2)),
            "T": Step("T", far, there), "M": Step("M", bar, variable, draw.randrange(1, 1 << self.ctas)),
            "U": Step("U", far, VARIABLES * cta + draw.randrange(0, VARIABLES), there),
            "C": Step("C", draw.randrange(0, 3)), "R": Step("R", there), "W": Step("W", there),
            **{k: Step(k, draw.randrange(0, 2)) for k in "GQ"}, **{k: Step(k, own) for k in "ni"},
            **{k: Step(k, mine) for k in "co"}, **{k: Step(k) for k in "kDKP"},
            **{k: Step(k, draw.randrange(0, NAMED), draw.randrange(1, self.warps + 1)) for k in "SA"},
        }[kind]  # fmt: skip


def ring(random: library.Random) -> Launch:
    """Return a producer that fills a stage of each CTA, and a consumer of each CTA that gives it back remotely."""
    draft = Draft(random, random.choice((1, 2, 2, 3)), random.choice((1, 1, 2)))
    ctas, stages, tiles = draft.ctas, random.choice((1, 1, 2)), random.randrange(1, 4)
    how = random.choice(("multicast", "multicast", "own multicast", "each", "stores", "copies", "sends"))
    wait, first_waits, weight = random.choice("wwp"), random.random() < 0.8, random.choice((1, 1, 2))
    fence = [Step("P")] * (random.random() < 0.2)
    consumers = [draft.threads[draft.warps * (cta + 1) - 1] for cta in range(ctas)]
    producer = draft.threads[0]
    for s in range(stages):
        draft.counts[stages + s] = ctas * weight
    for tile in range(tiles):
        s, turn = tile % stages, tile // stages
        if first_waits or turn:
            producer.append(Step(wait, stages + s, 1 - turn % 2))
        for cta, steps in enumerate(consumers):
            if how == "own multicast":
                steps.append(Step("x", MBARRIERS * cta + s, SIZE))
            elif how == "copies":  # each fills its own
                copy = [Step("c", VARIABLES * cta + s), *[Step("k")] * (random.random() < 0.3)]
                steps += [*copy, *random.choice(([Step("n", MBARRIERS * cta + s)], _counted(MBARRIERS * cta + s)))]
        producer += [*fence, *_filled(how, s, turn, ctas)]
        for cta, steps in enumerate(consumers):
            steps += [Step(wait, MBARRIERS * cta + s, turn % 2), Step("R", VARIABLES * cta + s)]
            steps.append(Step("a", stages + s, weight))
    for cta, steps in enumerate(consumers):
        if random.random() < 0.2:
            steps += _result(random, VARIABLES * cta + OUT)
    draft.meet()
    if random.random() < 0.2:
        draft.initialize()
    return draft.edited()


def _counted(bar: int) -> list[Step]:
    return [Step("i", bar), Step("a", bar, 1)]


def _filled(how: str, stage: int, turn: int, ctas: int) -> list[Step]:
    """Return what fills a stage of each CTA."""
    bars = [MBARRIERS * cta + stage for cta in range(ctas)]
    tiles = [VARIABLES * cta + stage for cta in range(ctas)]
    cast = Step("M", stage, stage, (1 << ctas) - 1)
    if how == "multicast":
        return [*(Step("x", bar, SIZE) for bar in bars), cast]
    if how == "own multicast":
        return [cast]
    if how == "each":
        return [
            step for bar, tile in zip(bars, tiles, strict=True) for step in (Step("x", bar, SIZE), Step("T", bar, tile))
        ]
    if how == "stores":
        return [step for bar, tile in zip(bars, tiles, strict=True) for step in (Step("W", tile), Step("a", bar, 1))]
    if how == "sends":
        steps = [Step("x", bars[0], SIZE), Step("T", bars[0], tiles[0]), Step("w", bars[0], turn % 2)]
        for bar, tile in zip(bars[1:], tiles[1:], strict=True):
            steps += [Step("x", bar, SIZE), Step("U", bar, tiles[0], tile)]
        return steps
    return []


def _result(random: library.Random, variable: int) -> list[Step]:
    """Return what stores a result."""
    fence = [Step("P")] * (random.random() < 0.9)
    return [Step("W", variable), *fence, Step("o", variable), Step("K"), Step(random.choice("GQ"), 0)]


def groups(random: library.Random) -> Launch:
    """Return copies ahead of their use by one or two threads, and stores in groups."""
    draft = Draft(random, 1, random.choice((1, 2)))
    first, last = draft.threads[0], draft.threads[-1]
    tiles, stages = random.randrange(1, 5), random.choice((1, 2, 2, 3))
    lag = random.randrange(0, 3) if random.random() < 0.1 else random.randrange(0, stages)  # groups under way
    wait_all = random.random() < 0.2
    for tile in range(min(lag, tiles)):
        first += [Step("c", tile % stages), Step("k")]
    for tile in range(tiles):
        if tile + lag < tiles:
            first.append(Step("c", (tile + lag) % stages))
            first += [Step("c", OUT)] * (stages < VARIABLES and tile == 0 and random.random() < 0.3)
        first += [Step("k"), Step("D") if wait_all else Step("C", lag)]
        if draft.warps == 2:
            first.append(Step("S", 0, 2))
            last += [Step("S", 0, 2), Step("R", tile % stages)]
            if random.random() < 0.9:
                first.append(Step("S", 1, 2))
                last.append(Step(random.choice("SSA"), 1, 2))
        else:
            first.append(Step("R", tile % stages))
    for tile in range(random.choice((0, 1, 2, 3))):
        v = tile % 2
        first += [Step(random.choice("QQG"), 1)] if tile > 1 else []
        first += [Step("W", v), Step("P"), Step("o", v), *[Step("K")] * (random.random() < 0.8)]
    first.append(Step(random.choice("GGQ"), 0))
    return draft.edited()


def mixed(random: library.Random) -> Launch:
    """Return random steps."""
    draft = Draft(random, random.choice((1, 2)), random.choice((1, 2)))
    for bar in range(len(draft.counts)):
        draft.counts[bar] = random.randrange(1, 3)
    for t, steps in enumerate(draft.threads):
        steps += [draft.step(t) for _ in range(random.randrange(1, 1 + 12 // len(draft.threads)))]
    draft.meet()
    return draft.launch()


AGENT_FAMILIES: Final[dict[str, Callable[[library.Random], Launch]]] = {"ring": ring, "groups": groups, "mixed": mixed}


# -- wgmma ------------------------------------------------------------------------------------------------------------


def ring_line(ring: Ring) -> str:
    """Return the four warps of a ring and the thread that fills it, in the notation of `ocaml/main.ml`."""
    counts = [1] * ring.stages + [4 if ring.giver < 0 else 1] * ring.stages
    lines = [_consumer(ring, warp) for warp in range(4)]
    producer = []
    for k in range(ring.steps):
        s, turn = k % ring.stages, k // ring.stages
        producer += [f"w({ring.stages + s},{1 - turn % 2})"] if turn else []
        producer += [f"x({s},{SIZE})", f"T({s},{s})"]
    lines.append(" ".join(producer))
    return f"{' '.join(map(str, counts))} | " + " | ".join(f"t{t}: {line}" for t, line in enumerate(lines))


def _consumer(ring: Ring, warp: int) -> str:
    steps = []
    for k in range(ring.steps):
        s, given = k % ring.stages, k - ring.late
        gives = given >= 0 and ring.giver in (-1, warp)
        give = [f"a({ring.stages + given % ring.stages},1)"] if gives else []
        steps += [f"w({s},{k // ring.stages % 2})", f"m({s})"]
        steps += [*give, f"F({ring.left})"] if ring.before else [f"F({ring.left})", *give]
    return " ".join([*steps, "F(0)"])


def check_ring(ring: Ring, engine: Engine = "vm") -> wsemu.Report:
    """Return wsemu's report of a ring."""
    kernel = wsemu.load_ptx(ring.text())["ring"]
    return wsemu.check(kernel, 1, 160, (np.zeros(BYTES, np.uint8),), engine=engine)
