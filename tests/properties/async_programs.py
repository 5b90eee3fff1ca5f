"""Small random programs with asynchronous operations, and both engines' outcomes of them, to be compared."""

from __future__ import annotations

import random
from functools import partial
from typing import TYPE_CHECKING, Any

from tests.unit.async_kernels import DATA, Kernel, launch
from wsemu.model.isa import BLOCKS, DROP, NO_COMPLETE, NOINC, ONLY_READ, PEEK, RELAXED, WAIT_RELAXED

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.unit.async_kernels import Ran

Step = tuple[str, tuple[Any, ...]]
"""an operation and its operands, as a method of Writer"""
TILES = (DATA, DATA + 128, DATA + 256)
SIZES = (16, 32, 64, 128)
FENCES = ("async", "async.global", "async.shared::cta")


class Writer:
    """Puts steps into a program; the lanes that execute a step are its first operand."""

    def __init__(self, kernel: Kernel) -> None:
        self.k = kernel
        self.tokens: dict[int, int] = {}

    def write(self, steps: list[Step]) -> None:
        for name, (lanes, *operands) in steps:
            self.under(lanes, partial(getattr(self, name), *operands))

    def under(self, lanes: int, body: Callable[[], None]) -> None:
        """Guard the following steps: only lanes below `lanes` execute them; 32 stands for all."""
        if lanes == 32:
            body()
            return
        if lanes < 0:  # in a branch of its own
            self.k.when(self.k.lanes_below(-lanes), body)
            return
        before, self.k.guard = self.k.guard, self.k.lanes_below(lanes)
        body()
        self.k.guard = before

    def arrive(self, bar: int, count: int, flags: int, bytes_: int) -> None:
        self.k.arrive(bar, count, flags, bytes_)

    def token(self, bar: int) -> None:
        self.k.out(self.k.as_number(self.k.wait_token(bar, self.k.arrive(bar))), 1)

    def expect(self, bar: int, bytes_: int) -> None:
        self.k.expect(bar, bytes_)

    def come(self, bar: int, bytes_: int) -> None:
        self.k.come(bar, bytes_)

    def wait(self, bar: int, parity: int, flags: int) -> None:
        self.k.out(self.k.as_number(self.k.wait(bar, parity, flags)), 0)

    def init(self, bar: int, count: int) -> None:
        self.k.init(bar, count)

    def inval(self, bar: int) -> None:
        self.k.inval(bar)

    def load(self, tile: int, source: int, size: int, bar: int) -> None:
        self.k.load(tile, self.array(source), size, bar)

    def store(self, target: int, tile: int, size: int, mask: int) -> None:
        self.k.store(self.array(target), tile, size, mask)

    def reduce(self, target: int, tile: int, size: int) -> None:
        self.k.reduce("add", "u32", self.array(target), tile, size)

    def array(self, offset: int) -> int:
        return self.k.emit("add.b64", self.k.a, self.k.c(offset, "b64"))

    def copy(self, tile: int, width: int, size: int, spread: int) -> None:
        """Emit cp.async; each lane copies its own bytes, or all lanes copy the same ones."""
        lane = self.k.emit("cvt.b64.u32", self.k.lane)
        step = self.k.c(width if spread else 0, "b64")
        to, source = (self.k.emit("mad.b64", lane, step, base) for base in (self.k.at(tile), self.k.a))
        self.k.do(f"cp.async.b{8 * width}", to, source, self.k.c(size))

    def commit(self) -> None:
        self.k.do("cp.async.commit")

    def copied(self, left: int, everything: int) -> None:
        self.k.do("cp.async.wait", immediate=left, auxiliary=everything)

    def copies_arrive(self, bar: int, flags: int) -> None:
        self.k.do("cp.async.arrive", self.k.base, immediate=8 * bar, auxiliary=flags)

    def bulk_commit(self) -> None:
        self.k.do("bulk.commit")

    def bulk_wait(self, left: int, flags: int) -> None:
        self.k.do("bulk.wait", immediate=left, auxiliary=flags)

    def zero(self, tile: int, size: int) -> None:
        self.k.do("bulk.zero", self.k.at(tile), self.k.c(size))

    def fence(self, kind: str) -> None:
        self.k.fence(kind)

    def put(self, tile: int) -> None:
        self.k.do("st.b32", self.mine(tile), self.k.tid)

    def put_all(self, offset: int) -> None:
        self.k.do("st.b32", self.k.at(offset), self.k.c(7))

    def get(self, tile: int) -> None:
        self.k.out(self.k.emit("ld.b32", self.mine(tile)), 2)

    def mine(self, tile: int) -> int:
        return self.k.emit("mad.b64", self.k.emit("cvt.b64.u32", self.k.lane), self.k.c(4, "b64"), self.k.at(tile))

    def add(self, offset: int) -> None:
        self.k.emit("atom.add.b32", self.array(offset), self.k.c(1))

    def store_a(self, offset: int) -> None:
        self.k.do("st.b32", self.array(offset), self.k.c(5))

    def syncwarp(self, members: int) -> None:
        self.k.do("syncwarp", self.k.c(0), self.k.c(0), self.k.c(members))

    def sync(self, aligned: int) -> None:
        self.k.do("bar.sync", self.k.c(0), auxiliary=aligned)

    def arrive_named(self) -> None:
        self.k.do("bar.arrive", self.k.c(1), self.k.c(64))

    def sync_named(self) -> None:
        self.k.do("bar.sync", self.k.c(1), self.k.c(64))

    def elect(self) -> None:
        self.k.out(self.k.emit("elect.sync", self.k.c(0), self.k.c(0), self.k.c(0xFFFFFFFF)), 3)

    def registers(self, what: str, count: int) -> None:
        self.k.do(f"setmaxnreg.{what}", immediate=count)

    def leave_some(self) -> None:
        self.k.do("exit")


def soup_step(rng: random.Random) -> Step:
    """Return a random operation."""
    lanes = rng.choice((32, 32, 32, 1, 1, 1, 5, -1, -1, -7))
    bar, tile, size = rng.randrange(2), rng.choice(TILES), rng.choice(SIZES)
    flags = rng.choice((0, 0, 0, 0, RELAXED, DROP, NO_COMPLETE, RELAXED | DROP))
    wait_flags = rng.choice((BLOCKS, BLOCKS, BLOCKS, BLOCKS, 0, PEEK, BLOCKS | WAIT_RELAXED))
    steps: list[tuple[int, str, tuple[Any, ...]]] = [
        (6, "arrive", (bar, rng.choice((1, 1, 1, 1, 2, 0)), flags, rng.choice((0, 0, 0, 16, 64)))),
        (1, "token", (bar,)),
        (1, "expect", (bar, rng.choice((16, 32)))),
        (1, "come", (bar, rng.choice((16, 32)))),
        (6, "wait", (bar, rng.randrange(2), wait_flags)),
        (1, "inval", (bar,)),
        (4, "load", (tile, rng.choice((0, 64, 512)), rng.choice((size, size, size, size + 4, 0)), bar)),
        (3, "store", (rng.choice((0, 64, 512)), tile, size, rng.choice((0xFFFF, 0xFFFF, 0x00F1)))),
        (2, "reduce", (rng.choice((0, 64)), tile, size)),
        (3, "copy", _copy(rng, tile)),
        (2, "commit", ()),
        (2, "copied", (rng.randrange(2), rng.randrange(2))),
        (2, "copies_arrive", (bar, rng.choice((0, NOINC)))),
        (2, "bulk_commit", ()),
        (3, "bulk_wait", (rng.choice((0, 0, 1)), rng.choice((0, 0, ONLY_READ)))),
        (1, "zero", (tile, size)),
        (3, "fence", (rng.choice(FENCES),)),
        (4, "put", (tile,)),
        (1, "put_all", (rng.choice((0, 4, DATA + 20)),)),
        (4, "get", (tile,)),
        (1, "add", (rng.choice((0, 8, 64)),)),
        (1, "store_a", (rng.choice((0, 8, 64)),)),
        (2, "syncwarp", (0xFFFFFFFF,)),
        (1, "elect", ()),
        (1, "registers", (rng.choice(("inc", "dec")), rng.choice((24, 40, 56, 57)))),
    ]
    weights = [weight for weight, _, _ in steps]
    _, name, operands = rng.choices(steps, weights)[0]
    if name in ("syncwarp", "elect", "registers"):
        lanes = rng.choice((32, 32, 32, 32, -7))
    if name in ("load", "store", "reduce", "zero") and abs(lanes) > 1:
        lanes = rng.choice((1, -1, 1, -1, 3))
    return name, (lanes, *operands)


def _copy(rng: random.Random, tile: int) -> tuple[int, int, int, int]:
    width = rng.choice((4, 8, 16))
    return tile, width, rng.choice((width, width, width, 0, width - 1, width + 3)), rng.choice((1, 1, 1, 0))


def soup(rng: random.Random) -> tuple[list[tuple[int, int]], list[list[Step]]]:
    """Return the counts of mbarriers, each with the lanes that initialize it, and the steps of each warp."""
    makes = [(1, rng.choice((1, 1, 2, 32, 33))) for _ in range(2)]
    warps = [[soup_step(rng) for _ in range(rng.randrange(2, 9))] for _ in range(rng.choice((2, 2, 3)))]
    if rng.random() < 0.3:
        for steps in warps:
            steps.insert(rng.randrange(len(steps) + 1), ("sync", (32, rng.randrange(2))))
    return makes, warps


def ring(rng: random.Random) -> tuple[list[tuple[int, int]], list[list[Step]]]:
    """Return a producer and a consumer that hand each other a tile, correct except for what a mutation changes."""
    rounds, lone = rng.randrange(2, 5), rng.random() < 0.5
    by = rng.choice(("bulk", "copies", "plus", "plain"))
    producers, consumers = (32 if by in ("copies", "plus", "plain") else 1), (1 if lone else 32)
    makes = [(1, producers), (1, consumers)]
    produce: list[Step] = []
    consume: list[Step] = []
    for n in range(rounds):
        lanes = -1 if producers == 1 else 32
        produce.append(("wait", (lanes, 1, 1 - n % 2, BLOCKS)))
        if by == "bulk":
            produce += [("arrive", (lanes, 0, 1, 0, 128)), ("load", (lanes, DATA, 0, 128, 0))]
        elif by == "plain":
            produce += [("put", (32, DATA)), ("arrive", (32, 0, 1, 0, 0))]
        else:
            produce.append(("copy", (32, DATA, 4, 4, 1)))
            produce.append(("copies_arrive", (32, 0, NOINC if by == "copies" else 0)))
            if by == "plus":
                produce.append(("arrive", (32, 0, 1, 0, 0)))
        consume += [("wait", (32, 0, n % 2, BLOCKS)), ("get", (32, DATA)), ("fence", (32, "async"))]
        if lone:
            consume.append(("syncwarp", (32, 0xFFFFFFFF)))
        consume.append(("arrive", (1 if lone else 32, 1, 1, 0, 0)))
    warps = [produce, consume]
    for _ in range(rng.randrange(3)):
        mutate(rng, warps)
    return makes, warps


def mutate(rng: random.Random, warps: list[list[Step]]) -> None:
    """Remove a step, double it, swap two, or let other lanes execute it."""
    steps = rng.choice(warps)
    if not steps:
        return
    at = rng.randrange(len(steps))
    what = rng.randrange(5)
    if what == 0:
        del steps[at]
    elif what == 1:
        steps.insert(at, steps[at])
    elif what == 2:
        other = rng.randrange(len(steps))
        steps[at], steps[other] = steps[other], steps[at]
    elif what == 3:
        name, (_, *operands) = steps[at]
        steps[at] = name, (rng.choice((32, 1, -1, 5)), *operands)
    else:
        steps.insert(at, soup_step(rng))


def program(seed: int) -> tuple[Kernel, int]:
    """Return a program, and the number of threads that run it."""
    rng = random.Random(seed)
    makes, warps = (soup if rng.random() < 0.5 else ring)(rng)
    kernel = Kernel()
    writer = Writer(kernel)
    ordered = rng.random() < 0.85

    def begin() -> None:
        for bar, (_, count) in enumerate(makes):
            kernel.init(bar, count)

    kernel.only(0, begin)
    if ordered:
        kernel.sync()
    kernel.warps(*(lambda steps=steps: writer.write(steps) for steps in warps))
    return kernel, 32 * len(warps) - rng.choice((0, 0, 0, 7))


def ran(seed: int, engine: str) -> Ran:
    kernel, threads = program(seed)
    return launch(kernel, threads, engine, registers=40, grid=1 + seed % 7 // 6)


def differences(seed: int) -> list[str]:
    """Return the differences between the outcomes of a program on the two engines."""
    one, other = ran(seed, "reference"), ran(seed, "vm")
    found = []
    for name in (
        "status", "findings", "executions", "warp_instructions", "thread_operations", "cta", "fault_pc",
        "warps", "barriers", "phases", "phase_waits",
    ):  # fmt: skip
        a, b = getattr(one.outcome, name), getattr(other.outcome, name)
        if name == "findings":
            a, b = (sorted(map(_plain, of)) for of in (a, b))
        if a != b:
            found.append(f"{name}:\n  {_only(a, b)}\n  {_only(b, a)}")
    if one.arrays != other.arrays:
        found.append("arrays")
    assert one.outcome.trace
    assert other.outcome.trace
    events = [
        [event for event in trace.events if event.kind in KINDS] for trace in (one.outcome.trace, other.outcome.trace)
    ]
    if events[0] != events[1]:
        found.append(f"events:\n  {_only(*events)}\n  {_only(*events[::-1])}")
    return found


KINDS = frozenset("init inval arrive_on expect credit await phase copy landed proxy".split())


def _plain(finding: Any) -> tuple[Any, ...]:
    return (
        finding.code, finding.pc, finding.other_pc, finding.count, finding.cta, finding.warp, finding.lanes,
        finding.other_warp, tuple(sorted(finding.detail.items())),
    )  # fmt: skip


def _only(a: Any, b: Any) -> Any:
    if isinstance(a, list) and isinstance(b, list) and len(a) < 60:
        return [x for x in a if x not in b]
    return a if not isinstance(a, list) else [(n, x) for n, x in enumerate(a) if n >= len(b) or b[n] != x][:5]
