"""Random programs of asynchronous operations for whole warps, on which the engines have to agree in everything.

soup      statements in any order, most of them wrong somewhere: what an engine says of misuse, lane by lane
pipeline  producers and consumers around a ring of stages, with a mistake now and then
right     the same without one
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

from tests.unit.async_kernels import DATA, ENGINES, Kernel, Ran, launch
from wsemu.model.isa import BLOCKS, DROP, NO_COMPLETE, NOINC, PEEK, RELAXED, WAIT_RELAXED
from wsemu.model.outcome import Event

FULL = 0xFFFFFFFF


def soup(source: random.Random) -> Kernel:
    """Statements, nested in branches, at one to three mbarriers that thread 0 makes."""
    k = Kernel(shared=4096)
    bars = source.randint(1, 3)
    k.only(0, lambda: [k.init(n, source.choice([1, 1, 2, 31, 32, 33, 64])) for n in range(bars)])
    if source.random() < 0.9:
        k.sync()
    tokens: list[int] = []

    def branch(depth: int) -> object:
        parts: list[Callable[[], int]] = [
            lambda: k.is_warp(source.randrange(3)),
            lambda: k.lanes_below(source.choice([1, 16, 31])),
            lambda: k.is_thread(source.choice([0, 1, 32, 64])),
        ]
        other = (lambda: block(depth + 1)) if source.random() < 0.5 else None
        return k.when(source.choice(parts)(), lambda: block(depth + 1), other)

    def block(depth: int) -> None:
        for _ in range(source.randint(1, 4 if depth else 10)):
            if depth < 3 and source.random() < 0.12:
                branch(depth)
            else:
                source.choice(statements)(source.randrange(bars))

    choice = source.choice
    flags = [0, 0, 0, RELAXED, NO_COMPLETE, DROP]
    statements: list[Callable[[int], object]] = [
        *[lambda b: tokens.append(k.arrive(b, choice([1, 1, 1, 0, 2]), choice(flags)))] * 3,
        lambda b: k.arrive(b, 1, choice([0, RELAXED]), 16),
        *[lambda b: k.wait(b, choice([0, 1]), choice([BLOCKS] * 3 + [0, PEEK, BLOCKS | WAIT_RELAXED]))] * 4,
        lambda b: k.wait_token(b, choice(tokens), choice([BLOCKS, 0])) if tokens else None,
        lambda b: k.expect(b, choice([16, 32])),
        lambda b: k.come(b, 16),
        lambda b: k.fence(choice(["async", "async.global", "async.shared::cta", "alias"])),
        *[lambda b: k.load(DATA + choice([0, 16, 32]), k.a, choice([16, 16, 32, 20]), b)] * 2,
        lambda b: k.store(k.b, DATA, choice([16, 32]), choice([0xFFFF, 0xFFFF, 0x00F0])),
        lambda b: k.reduce(*choice([("add", "u32"), ("add", "u64"), ("max", "s32")]), k.b, DATA, 16),
        lambda b: k.do("bulk.commit"),
        lambda b: k.do("bulk.wait", immediate=choice([0, 1]), auxiliary=choice([0, 1])),
        lambda b: k.do("cp.async.b32", k.by_thread(k.at(DATA)), k.by_thread(k.a), k.c(choice([4, 4, 2, 0, 5]))),
        lambda b: k.do("cp.async.commit"),
        lambda b: k.do("cp.async.wait", immediate=choice([0, 1]), auxiliary=choice([0, 1])),
        lambda b: k.do("cp.async.arrive", k.base, immediate=8 * b, auxiliary=choice([0, NOINC])),
        lambda b: k.put(DATA, k.tid),
        lambda b: k.out(k.get(DATA)),
        lambda b: k.do("syncwarp", k.c(0), k.c(0), k.c(FULL)),
        lambda b: k.do("bar.sync", k.c(choice([0, 1])), k.c(64), auxiliary=choice([0, 1])),
        lambda b: k.sync(),
        lambda b: k.inval(b),
        lambda b: k.do("bulk.zero", k.at(DATA), k.c(16)),
        lambda b: k.do("setmaxnreg.dec", immediate=choice([24, 40])),
        lambda b: k.do("setmaxnreg.inc", immediate=choice([240, 168])),
    ]
    block(0)
    return k


class Pipeline:
    """Warp 0 fills a ring of stages, the other one or two warps empty it.  With `mistakes` a part is left out or
    changed now and then; without them the program is right."""

    def __init__(self, source: random.Random, mistakes: float) -> None:
        self.source, self.mistakes = source, mistakes
        self.stages, self.rounds, self.warps = source.randint(1, 3), source.randint(2, 5), source.choice([1, 1, 2])
        self.kind = source.choice(["bulk", "noinc", "inc", "plain"])
        self.elected = source.random() < 0.5
        self.fenced = not self.slips(4)
        self.flags = RELAXED if self.slips() else 0
        self.k = Kernel(shared=4096)
        self.k.threads = 32 * (1 + self.warps)
        self._make()

    def slips(self, weight: float = 1) -> bool:
        """Whether a mistake is made here."""
        return self.source.random() < self.mistakes * weight

    def _make(self) -> None:
        k = self.k
        k.only(0, self._init)
        if not self.slips():
            k.sync()
        if self.kind == "bulk":
            k.only(0, self._fill)
        else:
            k.when(k.is_warp(0), self._fill)
        k.when(k.emit("setp.ge.u32", k.warp, k.c(1)), self._empty)

    def _init(self) -> None:
        arrivals = 1 if self.kind in ("bulk", "inc") else 32
        for s in range(self.stages):
            self.k.init(s, arrivals + self.slips())
            self.k.init(8 + s, self.warps * (1 if self.elected else 32) + self.slips())

    def _syncwarp(self) -> None:
        if not self.slips(3):
            self.k.do("syncwarp", self.k.c(0), self.k.c(0), self.k.c(FULL))

    def _fill(self) -> None:
        for n in range(self.rounds):
            s, phase = n % self.stages, n // self.stages & 1
            if not self.slips():
                self.k.wait(8 + s, 1 - phase, PEEK if self.slips() else BLOCKS)
            self._put(n, s)

    def _put(self, n: int, s: int) -> None:
        k, at = self.k, DATA + 128 * s
        if self.kind == "bulk":
            if not self.slips():
                k.arrive(s, 1, self.flags, 128)
            k.load(at, k.emit("add.b64", k.a, k.c(128 * n, "b64")), 112 if self.slips() else 128, s)
        elif self.kind == "plain":
            k.put(at, k.c(n))
            k.arrive(s, 1, self.flags)
        else:
            k.do("cp.async.b32", k.by_thread(k.at(at)), k.by_thread(k.a), k.c(4))
            k.do("cp.async.arrive", k.base, immediate=8 * s, auxiliary=NOINC if self.kind == "noinc" else 0)
            if self.kind == "inc":
                self._syncwarp()
                k.when(k.lanes_below(1), partial(k.arrive, s, 1, self.flags))

    def _empty(self) -> None:
        k = self.k
        for n in range(self.rounds - self.slips()):
            s, phase = n % self.stages, n // self.stages & 1
            if not self.slips():
                k.wait(s, phase)
            own = k.emit("mad.b64", k.emit("cvt.b64.u32", k.lane), k.c(4, "b64"), k.at(DATA + 128 * s))
            k.out(k.emit("ld.b32", own))
            if self.fenced:
                k.fence("async.global" if self.slips() else "async")
            if self.elected:
                self._syncwarp()
                k.when(k.lanes_below(1), partial(k.arrive, 8 + s, 1, self.flags))
            elif not self.slips():
                k.arrive(8 + s, 1, self.flags)


FAMILIES: dict[str, Callable[[random.Random], Kernel]] = {
    "soup": soup,
    "pipeline": lambda source: Pipeline(source, 0.03).k,
    "right": lambda source: Pipeline(source, 0).k,
}


def runs(family: str, seed: int) -> dict[str, Ran]:
    """A program on each engine."""
    found = {}
    for engine in ENGINES:
        source = random.Random(f"{family} {seed}")
        kernel = FAMILIES[family](source)
        options: dict[str, Any] = {
            "registers": source.choice([0, 168]),
            "lockstep": source.random() < 0.1,
            "grid": source.choice([1, 1, 2]) if family == "soup" else 1,
        }
        found[engine] = launch(kernel, kernel.threads or source.choice([32, 64, 96]), engine, budget=3000, **options)
    return found


def _told(events: list[Event]) -> list[Event]:
    """Events as both engines tell them: lanes are of some kinds only."""
    of_warp = ("complete", "exit", "warp", "atomic", "fence.cta", "fence.gpu", "fence.sys")
    return [event._replace(lanes=0) if event.kind in of_warp else event for event in events]


def differences(one: Ran, other: Ran) -> list[str]:
    """In what two runs of a program differ."""
    a, b = one.outcome, other.outcome
    parts = "status cta fault_pc executions warps barriers phases phase_waits".split()
    found = [part for part in parts if getattr(a, part) != getattr(b, part)]
    for mine, theirs in zip(a.findings, b.findings, strict=False):
        if mine != theirs:
            found.append(f"{mine} != {theirs}")
            break
    if len(a.findings) != len(b.findings):
        found.append(f"{[f.code for f in a.findings]} != {[f.code for f in b.findings]}")
    assert a.trace
    assert b.trace
    told, others = _told(a.trace.events), _told(b.trace.events)
    if told != others:
        pairs = zip(told, others, strict=False)
        found.append(f"events: {next((pair for pair in pairs if pair[0] != pair[1]), 'how many')}")
    if one.arrays != other.arrays:
        found.append("memory")
    return found
