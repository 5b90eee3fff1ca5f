"""Random programs of strong accesses, fences and flags, as kernels in PTX, and wsemu's verdict on them.

What each may do is enumerated by `memory_model.py`: a program that can race must not be `verified`, and one that cannot
must not be `failed`; `incomplete` is no answer, and counted.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import wsemu
from tests.properties.memory_model import (
    ATOMIC,
    BARRIER,
    FENCE,
    READ,
    WEAK,
    WRITE,
    Operation,
    Program,
    Thread,
    explore,
    notation,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

PLACES = ("x", "y", "f", "g")
DATA, FLAGS = ("x", "y"), ("f", "g")
NARROW = ("cta", "cluster")
MOST_EVENTS = 11
"""of all threads of a program: what is enumerated grows fast"""
MOST_ATOMICS = 4
"""on one place, where one may be none to the others: their orders are many more"""
_HEAD = """.version 8.8
.target sm_90
.address_size 64
.visible .entry k(.param .u64 memory)
{
.reg .pred %p<4>;
.reg .b32 %r<8>;
.reg .b32 %v<64>;
.reg .b64 %rd<4>;
ld.param.u64 %rd1, [memory];
mov.u32 %r1, %ctaid.x;
mov.u32 %r2, %tid.x;
and.b32 %r3, %r2, 31;
shr.u32 %r4, %r2, 5;
setp.ne.u32 %p1, %r3, 0;
@%p1 bra $end;
"""


# -- as PTX -----------------------------------------------------------------------------------------------------------
def ptx(program: Program) -> tuple[str, int, int]:
    """(source, CTAs, warps of a CTA): each thread is the first lane of a warp."""
    lines, bodies = [_HEAD], []
    met: dict[int, int] = {}
    if len({thread.operations for thread in program}) == 1 and len({thread.cta for thread in program}) == len(program):
        return "\n".join([_HEAD, _body(0, program[0]), "$end:\nret;\n}\n"]), len(program), 1  # they begin alike
    for n, thread in enumerate(program):
        warp = met.get(thread.cta, 0)
        met[thread.cta] = warp + 1
        lines.append(f"setp.eq.u32 %p1, %r1, {thread.cta};\nsetp.eq.and.u32 %p2, %r4, {warp}, %p1;\n@%p2 bra $t{n};")
        bodies.append(_body(n, thread))
    return "\n".join([*lines, "bra $end;", *bodies, "$end:\nret;\n}\n"]), len(met), max(met.values())


def _body(n: int, thread: Thread) -> str:
    registers: dict[str, str] = {}
    lines = [f"$t{n}:"]
    for at, operation in enumerate(thread.operations):
        if operation.guard:
            register, value, equal = operation.guard
            relation = "ne" if equal else "eq"
            held = registers.setdefault(register, f"%v{len(registers) + 8 * n}")
            lines.append(f"setp.{relation}.u32 %p1, {held}, {value};\n@%p1 bra $s{n}_{at};")
        if operation.result:
            registers.setdefault(operation.result, f"%v{len(registers) + 8 * n}")
        lines.append(_instruction(operation, registers))
        if operation.guard:
            lines.append(f"$s{n}_{at}:")
    start = [f"mov.u32 {register}, 0;" for register in registers.values()]
    return "\n".join([lines[0], *start, *lines[1:], "bra $end;"])


def _instruction(o: Operation, registers: dict[str, str]) -> str:
    if o.kind == BARRIER:
        return "bar.sync 0;"
    if o.kind == FENCE:
        return f"fence.{o.order}.{o.scope};"
    address = f"[%rd1+{4 * PLACES.index(o.place)}]"
    order = "" if o.order == WEAK else f".{o.order}.{o.scope}"
    result = registers.get(o.result, "%r5")
    if o.kind == READ:
        return f"ld{order}.global.u32 {result}, {address};"
    if o.kind == WRITE:
        return f"st{order}.global.u32 {address}, {o.value};"
    type_ = "b32" if o.what in ("exch", "cas") else "u32"
    compare = "0, " if o.what == "cas" else ""
    return f"atom{order}.global.{o.what}.{type_} {result}, {address}, {compare}{o.value};"


# -- random ones ------------------------------------------------------------------------------------------------------
def strong_program(source: random.Random) -> Program:
    """Two or three threads that pass messages, more or less well."""
    while True:
        program = _drawn(source)
        made = [operation for thread in program for operation in thread.operations]
        narrow = any(o.scope in NARROW for o in made if o.place and o.order != WEAK)
        most = max(Counter(o.place for o in made if o.kind == ATOMIC).values(), default=0)
        if len(made) <= MOST_EVENTS and not (narrow and most > MOST_ATOMICS):
            return program


def _drawn(source: random.Random) -> Program:
    count = source.choice((2, 2, 3))
    if source.random() < 0.3:
        made = tuple(_ticket(source, 3 if count == 2 else 1))
        return tuple(Thread(n, made) for n in range(count))
    ctas = source.choice(((0, 1, 2), (0, 1, 2), (0, 0, 0), (0, 1, 1)))
    return tuple(Thread(ctas[n], tuple(_thread(source, n))) for n in range(count))


def _ticket(source: random.Random, most: int) -> Iterator[Operation]:
    """What a thread does by the number that it draws."""
    order = source.choice(("relaxed", "acquire", "acq_rel", "acq_rel"))
    yield Operation(ATOMIC, source.choice(FLAGS), 1, order, _scope(source), "t", "add")
    for k in range(source.randint(1, most)):
        made = source.choice((
            _data(source, None), _data(source, None), _raise(source, source.choice(FLAGS)),
            _look(source, source.choice(FLAGS), f"b{k}"), _fence(source, 1.0)[0],
        ))  # fmt: skip
        known = [("t", 0), ("t", 0), ("t", 1), ("t", 1), *([(f"b{k - 1}", 1)] if k else [])]
        guard = (*source.choice(known), source.random() < 0.8) if source.random() < 0.8 else None
        yield made._replace(guard=guard)


def _scope(source: random.Random) -> str:
    return source.choice(("gpu", "gpu", "gpu", "gpu", "sys", "sys", "cta", "cluster"))


def _thread(source: random.Random, n: int) -> list[Operation]:
    made: list[Operation] = []
    flag = source.choice(FLAGS if source.random() < 0.3 else FLAGS[:1])
    shape = source.random()
    if shape < 0.35:
        made += [_data(source, None) for _ in range(source.choice((1, 1, 2)))]
        made += _fence(source, 0.5)
        made.append(_raise(source, flag))
    elif shape < 0.7:
        looked = _look(source, flag, "a")
        guard = ("a", source.choice((1, 1, 1, 2)), True) if source.random() < 0.85 else None
        made += [looked, *(o._replace(guard=guard) for o in _fence(source, 0.5))]
        made += [_data(source, guard) for _ in range(source.choice((1, 1, 2)))]
    else:
        for k in range(source.choice((2, 3, 3, 4))):
            guard = None
            known = [o.result for o in made if o.result]
            if known and source.random() < 0.5:
                guard = source.choice(known), source.choice((0, 1, 1, 2)), source.random() < 0.8
            kind = source.random()
            if kind < 0.35:
                made.append(_data(source, guard))
            elif kind < 0.6:
                made.append(_raise(source, flag)._replace(guard=guard))
            elif kind < 0.85:
                made.append(_look(source, source.choice(FLAGS), f"b{k}")._replace(guard=guard))
            else:
                made += [o._replace(guard=guard) for o in _fence(source, 1.0)]
    if source.random() < 0.2:
        made.append(_raise(source, source.choice(FLAGS)))
    return made


def _data(source: random.Random, guard: tuple[str, int, bool] | None) -> Operation:
    place = source.choice(DATA if source.random() < 0.4 else DATA[:1])
    if source.random() < 0.5:
        return Operation(WRITE, place, source.choice((1, 2)), guard=guard)
    return Operation(READ, place, guard=guard)


def _raise(source: random.Random, flag: str) -> Operation:
    if source.random() < 0.4:
        return Operation(WRITE, flag, source.choice((1, 1, 2)), source.choice(("relaxed", "release")), _scope(source))
    order = source.choice(("relaxed", "release", "acq_rel", "acquire"))
    what = source.choice(("add", "add", "exch", "cas", "max"))
    result = "c" if source.random() < 0.5 else ""
    return Operation(ATOMIC, flag, 1, order, _scope(source), result, what)


def _look(source: random.Random, flag: str, result: str) -> Operation:
    if source.random() < 0.6:
        return Operation(READ, flag, 0, source.choice(("relaxed", "acquire", "acquire")), _scope(source), result)
    return Operation(ATOMIC, flag, 1, source.choice(("relaxed", "acquire", "acq_rel")), _scope(source), result, "add")


def _fence(source: random.Random, chance: float) -> list[Operation]:
    if source.random() > chance:
        return []
    return [Operation(FENCE, order=source.choice(("acq_rel", "sc", "sc")), scope=source.choice(("gpu", "gpu", "cta")))]


# -- judging ----------------------------------------------------------------------------------------------------------
class Judged(NamedTuple):
    """What the model and wsemu say of a program."""

    program: Program
    races: bool
    verdict: str
    codes: tuple[str, ...]
    complaint: str

    def __str__(self) -> str:
        return f"{self.complaint}: {notation(self.program)}: {'races' if self.races else 'cannot race'}, {self.codes}"


def verdict(program: Program, engine: Any = "vm") -> tuple[str, tuple[str, ...]]:
    """wsemu's verdict, and the codes of its findings."""
    source, grid, warps = ptx(program)
    report = wsemu.check(wsemu.load_ptx(source)["k"], grid, 32 * warps, (np.zeros(8, np.uint32),), engine=engine)
    return report.verdict, tuple(sorted({finding.code for finding in report.findings if finding.severity == "error"}))


def judged_strong(program: Program, engine: Any = "vm") -> Judged:
    races = explore(program).racing
    said, codes = verdict(program, engine)
    complaint = "missed" if races and said == "verified" else "false alarm" if not races and said == "failed" else ""
    return Judged(program, races, said, codes, complaint)
