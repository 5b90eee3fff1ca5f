"""Random abstract programs (see explorer.py), and the kernels that execute them.

Two families: `free` programs are random operations, or rounds of barriers that fit together; `skeleton` programs are
producers and consumers with full and empty barriers.  Both get up to two random edits, so that a third to a half are
correct and most of the others only just fail.
"""

from __future__ import annotations

import itertools
import linecache
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import numpy as np
from hypothesis import strategies as st
from numpy import int32

import wsemu
from tests.properties.explorer import ARRIVE, LANES, READ, SYNC, WRITE, Operation, Program
from wsemu import cuda, ptx

if TYPE_CHECKING:
    from collections.abc import Sequence

LONGEST: Final = 8
"""operations of a warp in a free program"""
VARIABLES: Final = 3
Warps = list[list[Operation]]
T = TypeVar("T")


class Random(Protocol):
    """What is used of random.Random; Hypothesis has one of its own, which it can shrink."""

    def randrange(self, start: int, stop: int, /) -> int: ...
    def random(self) -> float: ...
    def choice(self, seq: Sequence[T], /) -> T: ...
    def sample(self, population: Sequence[T], k: int) -> list[T]: ...


# Families


def free(random: Random) -> Program:
    """Random operations, or rounds that fit together, of 2 to 4 warps over 1 to 3 barriers and 1 to 3 variables."""
    warps, barriers, variables = random.randrange(2, 5), random.randrange(1, 4), random.randrange(1, VARIABLES + 1)
    if random.random() < 0.25:
        usual = [LANES * random.randrange(1, warps + 1) for _ in range(barriers)]
        return tuple(
            tuple(_operation(random, usual, variables, warps) for _ in range(random.randrange(0, LONGEST + 1)))
            for _ in range(warps)
        )
    made = _rounds(random, warps, barriers, variables)
    return _edited(random, made, warps, most=1)


def _operation(random: Random, usual: list[int], variables: int, warps: int) -> Operation:
    kind = random.choice((SYNC, SYNC, ARRIVE, READ, WRITE))
    if kind in (READ, WRITE):
        return Operation(kind, random.randrange(0, variables))
    barrier = random.randrange(0, len(usual))
    count = usual[barrier] if random.random() < 0.95 else LANES * random.randrange(1, warps + 1)
    return Operation(kind, barrier, count)


def _rounds(random: Random, warps: int, barriers: int, variables: int) -> Warps:
    """Generations that complete when they are run one after the other, with accesses in between."""
    made: Warps = [[] for _ in range(warps)]
    everyone = range(warps)
    owner = [random.randrange(0, warps) for _ in range(variables)]
    fixed = random.random() < 0.5  # one group of warps for each barrier, or another one in each round
    groups = [random.sample(everyone, random.randrange(2, warps + 1)) for _ in range(barriers)]
    for _ in range(random.randrange(1, 8)):
        barrier = random.randrange(0, barriers)
        group = groups[barrier] if fixed else random.sample(everyone, random.randrange(1, warps + 1))
        if max(len(made[warp]) for warp in group) == LONGEST:
            break
        syncs = random.randrange(1, len(group) + 1)
        for k, warp in enumerate(group):
            made[warp].append(Operation(SYNC if k < syncs else ARRIVE, barrier, LANES * len(group)))
        for _ in range(random.randrange(0, 3)):
            variable = random.randrange(0, variables)
            write = random.random() < 0.5
            warp = owner[variable] if write else random.choice(group)
            if len(made[warp]) < LONGEST:
                made[warp].append(Operation(WRITE if write else READ, variable))
            if random.random() < 0.2:
                owner[variable] = random.choice(group)
    return made


def skeleton(random: Random) -> Program:
    """Producers that fill one or two buffers and consumers that read them, `tiles` times, with up to two edits.

    Buffer i is variable i, full barrier 2i, empty barrier 2i + 1; the consumers say first that the buffers are empty.
    Double buffering takes four barriers, and three tiles a few operations more than a free program has.
    """
    buffers = random.choice((1, 1, 2))
    tiles = random.randrange(1, 4)
    producers = random.choice((1, 1, 1, 2))
    consumers = random.choice((1, 1, 2)) if producers == 1 else 1
    count = LANES * (producers + consumers)
    prologue = random.random() < 0.75  # else the producer does not wait for the first use of a buffer
    last = random.random() < 0.5  # consumers give the buffers back after the last tile too
    both_wait = random.random() < 0.2  # sync where an arrive would do
    give = SYNC if both_wait else ARRIVE
    producer: list[Operation] = []
    consumer = [Operation(give, 2 * i + 1, count) for i in range(min(buffers, tiles)) if prologue]
    for tile in range(tiles):
        i = tile % buffers
        if prologue or tile >= buffers:
            producer.append(Operation(SYNC, 2 * i + 1, count))
        producer += [Operation(WRITE, i), Operation(give, 2 * i, count)]
        consumer += [Operation(SYNC, 2 * i, count), Operation(READ, i)]
        if tile + buffers < tiles or (last and not both_wait):
            consumer.append(Operation(give, 2 * i + 1, count))
    made = [_parts(producer, p, producers) for p in range(producers)] + [list(consumer) for _ in range(consumers)]
    return _edited(random, made, len(made), most=2)


def _parts(producer: list[Operation], part: int, parts: int) -> list[Operation]:
    """What one of several producers does: each fills its own part of a buffer, the first one the part that is read."""
    if part == 0:
        return list(producer)
    return [operation for operation in producer if operation.kind != WRITE]


FAMILIES: Final[dict[str, Callable[[Random], Program]]] = {"free": free, "skeleton": skeleton}


# Edits


def _edited(random: Random, made: Warps, warps: int, most: int) -> Program:
    """The program after 0 to `most` random edits; nothing is done in about half of the cases."""
    if random.random() < 0.6:
        for _ in range(random.randrange(1, most + 1)):
            warp = random.choice(made)
            if warp:
                random.choice(_EDITS)(random, warp, random.randrange(0, len(warp)), warps)
    return tuple(map(tuple, made))


def _delete(random: Random, warp: list[Operation], k: int, warps: int) -> None:
    del warp[k]


def _duplicate(random: Random, warp: list[Operation], k: int, warps: int) -> None:
    warp.insert(k, warp[k])


def _swap(random: Random, warp: list[Operation], k: int, warps: int) -> None:
    warp[k : k + 2] = reversed(warp[k : k + 2])


def _other_kind(random: Random, warp: list[Operation], k: int, warps: int) -> None:
    other = {SYNC: ARRIVE, ARRIVE: SYNC, READ: WRITE, WRITE: READ}
    warp[k] = warp[k]._replace(kind=other[warp[k].kind])


def _other_count(random: Random, warp: list[Operation], k: int, warps: int) -> None:
    if warp[k].is_barrier:
        warp[k] = warp[k]._replace(threads=LANES * random.randrange(1, warps + 1))


_EDITS: Final = (_delete, _duplicate, _swap, _other_kind, _other_count)


def families() -> st.SearchStrategy[str]:
    return st.sampled_from(sorted(FAMILIES))


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """Programs of both families."""
    make = FAMILIES[draw(families())]
    return make(draw(st.randoms(use_true_random=False)))


def smaller(program: Program, wrong: Callable[[Program], bool]) -> Program:
    """The program with operations left out one by one while it stays `wrong`."""
    for w, warp in enumerate(program):
        for k in range(len(warp)):
            shorter = (*program[:w], warp[:k] + warp[k + 1 :], *program[w + 1 :])
            if wrong(shorter):
                return smaller(shorter, wrong)
    return program


# Kernels
#
# Each variable is a row of 32 words, one for each lane, so that accesses of one warp never meet; each store has a value
# of its own, so that no two of them are stores of one value (`same-value-store`).  Warp 0 sets them to 0
# first and barrier 0 (syncthreads) orders that before everything else: a program's barrier b is named barrier b + 1.
# The prologue does not change the verdict.  All its accesses happen before all of the program's, so it adds no race; it
# orders no two operations of the program, all of which follow it; and it takes part in no generation of the program's
# barriers, nor can it stand for the operation before a first one: no operation of generation 0 is judged.

INTERPRETED: Final = {SYNC: 1, ARRIVE: 2, READ: 3, WRITE: 4}
LINES: Final = {
    SYNC: "ptx.bar_sync({0}, {1})",
    ARRIVE: "ptx.bar_arrive({0}, {1})",
    READ: "total += cells[{0}, lane]",
    WRITE: "cells[{0}, lane] = {2}",
}
_numbers = itertools.count()


@cuda.jit
def interpreter(length, code, out):
    """Execute what the warp's rows of `code` say: operation, barrier or variable, count."""
    cells = cuda.shared.array((VARIABLES, LANES), int32)
    thread = cuda.threadIdx.x
    w, lane = thread // LANES, thread % LANES
    total = 0
    if w == 0:
        for v in range(VARIABLES):
            cells[v, lane] = 0
    cuda.syncthreads()
    for k in range(length[w]):
        operation, place = code[w, k, 0], code[w, k, 1]
        if operation == 1:
            ptx.bar_sync(place, code[w, k, 2])
        elif operation == 2:
            ptx.bar_arrive(place, code[w, k, 2])
        elif operation == 3:
            total += cells[place, lane]
        else:
            cells[place, lane] = 256 * w + k + 1
    out[thread] = total


def named(operation: Operation) -> int:
    """The number of its barrier or variable in a kernel."""
    return operation.place + operation.is_barrier


def check_interpreted(program: Program, **options: Any) -> wsemu.Report:
    """The report of the interpreting kernel on a program, given as data."""
    longest = max(1, *map(len, program))
    code = np.zeros((len(program), longest, 3), np.int32)
    for w, warp in enumerate(program):
        for k, operation in enumerate(warp):
            code[w, k] = INTERPRETED[operation.kind], named(operation), operation.threads
    length = np.array([len(warp) for warp in program], np.int32)
    return _check(interpreter, program, (length, code), options)


def source(program: Program) -> str:
    """A kernel that has the program's operations as its lines."""
    lines = [
        "@cuda.jit",
        "def kernel(out):",
        f"    cells = cuda.shared.array(({VARIABLES}, {LANES}), int32)",
        "    thread = cuda.threadIdx.x",
        f"    w, lane = thread // {LANES}, thread % {LANES}",
        "    total = 0",
        "    if w == 0:",
        f"        for v in range({VARIABLES}):",
        "            cells[v, lane] = 0",
        "    cuda.syncthreads()",
    ]
    for w, warp in enumerate(program):
        lines.append(f"    {'elif' if w else 'if'} w == {w}:")
        lines += [
            f"        {LINES[o.kind].format(named(o), o.threads, 256 * w + k + 1)}" for k, o in enumerate(warp)
        ] or ["        pass"]
    return "\n".join([*lines, "    out[thread] = total", ""])


def check_compiled(program: Program, **options: Any) -> wsemu.Report:
    """The report of a kernel that was written for the program."""
    name = f"<abstract program {next(_numbers)}>"
    text = source(program)
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)  # where the front end reads it
    space: dict[str, Any] = {"cuda": cuda, "ptx": ptx, "int32": int32}
    exec(compile(text, name, "exec"), space)
    try:
        return _check(space["kernel"], program, (), options)
    finally:
        del linecache.cache[name]


def _check(kernel: Any, program: Program, arguments: tuple[Any, ...], options: dict[str, Any]) -> wsemu.Report:
    threads = LANES * len(program)
    return wsemu.check(kernel, 1, threads, (*arguments, np.zeros(threads, np.int64)), **options)
