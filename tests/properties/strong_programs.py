"""Random programs of strong accesses, fences and flags, as kernels in PTX, and wsemu's verdict on them.

What each may do is enumerated by `memory_model.py`: a program that can race must not be `verified`, and one that cannot
must not be `failed`; `incomplete` is no answer, and counted.

There are two families.  `strong_program` draws operations, `protocol_program` what kernels do with atomics (tickets
that are places, the last one to arrive, queues, locks, messages, barriers), and breaks something in most of them.
"""

from __future__ import annotations

import random
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest import mock

import numpy as np

import wsemu
from tests.properties.memory_model import (
    ATOMIC,
    BARRIER,
    FENCE,
    READ,
    WEAK,
    WRITE,
    Found,
    Operation,
    Program,
    Thread,
    explore,
    notation,
)
from wsemu.launch.explore import decide
from wsemu.launch.explore.messages import Messages

if TYPE_CHECKING:
    from collections.abc import Iterator

SLOTS = ("s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7")
DATA, FLAGS = ("x", "y"), ("f", "g")
PLACES = (*DATA, *FLAGS, *SLOTS)
NARROW = ("cta", "cluster")
MISSING = "missing-fence"
"""a race with a volatile load of a vector, behind an atomic that tells of what it reads"""
SAME = "same-value-store"
WHOLE = "strong-vector"
"""a strong access of a vector, which counts as one access, as in hardware"""
MOST_EVENTS = 11
"""of all threads of a program: what is enumerated grows fast"""
MOST_ATOMICS = 4
"""on one place, where one may be none to the others: their orders are many more"""
_HEAD = """.version 8.8
.target sm_90
.address_size 64
.visible .entry k(.param .u64 memory)
{{
.reg .pred %p<4>;
.reg .b32 %r<8>;
.reg .b32 %v<64>;
.reg .b64 %rd<4>;
mov.u32 %r1, %ctaid.x;
mov.u32 %r2, %tid.x;
{memory}
and.b32 %r3, %r2, 31;
shr.u32 %r4, %r2, 5;
setp.ne.u32 %p1, %r3, 0;
@%p1 bra $end;
"""


_ELEMENTS = ("%r5", "%r6", "%r7", "%r3")
_MEMORY = {
    "global": "ld.param.u64 %rd1, [memory];",
    "shared": ".shared .align 16 .b8 m[64];\nmov.u64 %rd1, m;\nshl.b32 %r3, %r2, 2;\ncvt.u64.u32 %rd2, %r3;\n"
    "add.s64 %rd2, %rd1, %rd2;\nsetp.gt.u32 %p1, %r2, 15;\n@%p1 bra $begin;\nmov.u32 %r3, 0;\n"
    "st.shared.u32 [%rd2], %r3;\n$begin:\nbar.sync 0;",
}
"""state space -> how a thread comes to it; shared memory is zero at first, too"""


# -- as PTX -----------------------------------------------------------------------------------------------------------
def ptx(program: Program, space: str = "global", *, together: bool = False) -> tuple[str, int, int]:
    """(source, CTAs, warps of a CTA): each thread is the first lane of a warp; `together`: those of a CTA are lanes of
    one."""
    head = _HEAD.format(memory=_MEMORY[space])
    apart = len({thread.cta for thread in program}) == len(program)
    if together and not apart:
        head = head.replace(
            "shr.u32 %r4, %r2, 5;\nsetp.ne.u32 %p1, %r3, 0;", "mov.u32 %r4, %r3;\nsetp.gt.u32 %p1, %r2, 31;"
        )
    lines, bodies = [head], []
    met: dict[int, int] = {}
    if len({thread.operations for thread in program}) == 1 and apart and program[0].cluster < 0:
        body = _body(0, program[0], space)
        return "\n".join([head, body, "$end:\nret;\n}\n"]), len(program), 1  # they begin alike
    for n, thread in enumerate(program):
        warp = met.get(thread.cta, 0)
        met[thread.cta] = warp + 1
        lines.append(f"setp.eq.u32 %p1, %r1, {thread.cta};\nsetp.eq.and.u32 %p2, %r4, {warp}, %p1;\n@%p2 bra $t{n};")
        bodies.append(_body(n, thread, space))
    warps = 1 if together and not apart else max(met.values())
    return "\n".join([*lines, "bra $end;", *bodies, "$end:\nret;\n}\n"]), len(met), warps


def _body(n: int, thread: Thread, space: str) -> str:
    registers: dict[str, str] = {}
    lines = [f"$t{n}:"]
    for at, operation in enumerate(thread.operations):
        if at and thread.operations[at - 1].joined:
            continue
        if operation.guard:
            register, value, equal = operation.guard
            relation = "ne" if equal else "eq"
            held = registers.setdefault(register, f"%v{len(registers) + 8 * n}")
            lines.append(f"setp.{relation}.u32 %p1, {held}, {value};\n@%p1 bra $s{n}_{at};")
        whole = _elements(thread, at)
        for element in whole:
            if element.result:
                registers.setdefault(element.result, f"%v{len(registers) + 8 * n}")
        if operation.counted:
            held = registers.setdefault(operation.counted, f"%v{len(registers) + 8 * n}")
            lines.append(f"mul.wide.u32 %rd2, {held}, 4;\nadd.s64 %rd2, %rd1, %rd2;")
        if operation.until >= 0:
            lines.append(f"$w{n}_{at}:")
        lines.append(_vector(whole, registers, space) if whole[1:] else _instruction(operation, registers, space))
        if operation.until >= 0:
            read = registers.get(operation.result, "%r5")
            lines.append(f"setp.ne.u32 %p1, {read}, {operation.until};\n@%p1 bra $w{n}_{at};")
        if operation.guard:
            lines.append(f"$s{n}_{at}:")
    start = [f"mov.u32 {register}, 0;" for register in registers.values()]
    return "\n".join([lines[0], *start, *lines[1:], "bra $end;"])


def _elements(thread: Thread, at: int) -> list[Operation]:
    """The operations of the one access that begins there."""
    made = [thread.operations[at]]
    while made[-1].joined:
        made.append(thread.operations[at + len(made)])
    return made


def _vector(elements: list[Operation], registers: dict[str, str], space: str) -> str:
    """The access of a vector."""
    first = elements[0]
    address = f"[%rd1+{4 * PLACES.index(first.place)}]"
    order = ".volatile" if first.volatile else "" if first.order == WEAK else f".{first.order}.{first.scope}"
    form = f"{order}.{space}.v{len(elements)}.u32"
    if first.kind == READ:
        into = [registers.get(o.result, own) for o, own in zip(elements, _ELEMENTS, strict=False)]
        return f"ld{form} {{{', '.join(into)}}}, {address};"
    values = [f"mov.u32 {own}, {o.value};" for o, own in zip(elements, _ELEMENTS, strict=False)]
    return "\n".join([*values, f"st{form} {address}, {{{', '.join(_ELEMENTS[: len(elements)])}}};"])


def _instruction(o: Operation, registers: dict[str, str], space: str) -> str:
    if o.kind == BARRIER:
        return "bar.sync 0;"
    if o.kind == FENCE:
        return f"fence.{o.order}.{o.scope};"
    first = PLACES.index(o.place + "0" if o.counted else o.place)
    address = f"[{'%rd2' if o.counted else '%rd1'}+{4 * first}]"
    order = "" if o.order == WEAK else ".volatile" if o.volatile else f".{o.order}.{o.scope}"
    result = registers.get(o.result, "%r5")
    if o.kind == READ:
        return f"ld{order}.{space}.u32 {result}, {address};"
    if o.kind == WRITE:
        return f"st{order}.{space}.u32 {address}, {o.value};"
    type_ = "b32" if o.what in ("exch", "cas") else "u32"
    compare = "0, " if o.what == "cas" else ""
    return f"atom{order}.{space}.{o.what}.{type_} {result}, {address}, {compare}{o.value};"


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
    clustered = source.random() < 0.2
    return tuple(Thread(ctas[n], tuple(_thread(source, n)), ctas[n] // 2 if clustered else -1) for n in range(count))


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
    if source.random() < 0.05:
        place = source.choice(FLAGS)
    strong = source.random() < 0.08
    if source.random() < 0.5:
        order = source.choice(("relaxed", "release")) if strong else WEAK
        return Operation(WRITE, place, source.choice((1, 2)), order, guard=guard)
    order = source.choice(("relaxed", "acquire")) if strong else WEAK
    return Operation(READ, place, 0, order, guard=guard)


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
    return [
        Operation(
            FENCE,
            order=source.choice(("acq_rel", "sc", "sc")),
            scope=source.choice(("gpu", "gpu", "gpu", "cta", "cluster")),
        )
    ]


# -- protocols --------------------------------------------------------------------------------------------------------
def protocol_program(source: random.Random) -> Program:
    """What kernels do with atomics, of two or three threads, with up to three things wrong."""
    count = source.choice((2, 2, 3))
    ctas = source.choice((range(3), range(3), (0, 0, 0), (0, 1, 1), (0, 0, 1)))
    alike = source.random() < 0.4
    made = source.choice(_PROTOCOLS)(source, count)
    if any(o.kind == BARRIER for own in made for o in own):
        ctas = (0, 0, 1)
    alike = alike and len(set(made)) == 1
    for _ in range(source.choice((0, 0, 1, 1, 2, 3))):
        n = source.randrange(count)
        broken = _broken(source, made[n])
        made = [broken if alike or k == n else own for k, own in enumerate(made)]
    clustered = source.random() < 0.25
    return tuple(Thread(ctas[n], own, ctas[n] // 2 if clustered else -1) for n, own in enumerate(made))


_Steps = tuple[Operation, ...]


def _released(source: random.Random, flag: str, value: int) -> list[Operation]:
    """A flag is raised."""
    what = source.choice(("store", "fence", "atomic", "both"))
    if what == "store":
        return [Operation(WRITE, flag, value, "release")]
    if what == "fence":
        return [_full(source), Operation(WRITE, flag, value, "relaxed")]
    fence = [_full(source)] if what == "both" else []
    return [*fence, Operation(ATOMIC, flag, value, "relaxed" if fence else "release", what="exch")]


def _awaited(source: random.Random, flag: str, value: int) -> list[Operation]:
    if source.random() < 0.5:
        return [Operation(READ, flag, 0, "acquire", until=value)]
    return [Operation(READ, flag, 0, "relaxed", until=value), _full(source)]


def _full(source: random.Random) -> Operation:
    return Operation(FENCE, order=source.choice(("acq_rel", "sc")), scope="gpu")


def _guarded(made: list[Operation], register: str, value: int) -> list[Operation]:
    return [o._replace(guard=(register, value, True)) for o in made]


def _drawn_ticket(source: random.Random, place: str, register: str) -> list[Operation]:
    if source.random() < 0.5:
        return [Operation(ATOMIC, place, 1, "acq_rel", result=register, what="add")]
    return [_full(source), Operation(ATOMIC, place, 1, "relaxed", result=register, what="add"), _full(source)]


def _places(source: random.Random, count: int) -> list[_Steps]:
    """Tickets are places; the last one to arrive looks at them."""
    ticket = Operation(ATOMIC, "f", 1, "relaxed", result="t", what="add")
    own = [ticket, Operation(WRITE, "s", 1, counted="t")]
    if source.random() < 0.6:
        own += _drawn_ticket(source, "g", "c")
        last = [Operation(READ, f"s{n}") for n in range(count)]
        own += _guarded(last, "c", count - 1)
    return [tuple(own)] * count


def _last(source: random.Random, count: int) -> list[_Steps]:
    """Each leaves something, the last one takes it."""
    made = []
    for n in range(count):
        rest = [Operation(READ, SLOTS[k]) for k in range(count) if k != n]
        if source.random() < 0.3:
            rest.append(Operation(WRITE, "f", 0))
        own = [Operation(WRITE, SLOTS[n], 1), *_drawn_ticket(source, "f", "t"), *_guarded(rest, "t", count - 1)]
        made.append(tuple(own))
    return made


def _lock(source: random.Random, count: int) -> list[_Steps]:
    spins = source.random() < 0.5
    body = [Operation(READ, "x"), Operation(WRITE, "x", 1)][source.randrange(2) :]
    fences = source.random() < 0.5
    order = "relaxed" if fences else "acquire"
    taken = [Operation(ATOMIC, "f", 1, order, result="" if spins else "l", what="cas", until=0 if spins else -1)]
    left = source.choice((Operation(WRITE, "f", 0, "release"), Operation(ATOMIC, "f", 0, "release", what="exch")))
    if fences:
        left = left._replace(order="relaxed")
        body = [_full(source), *body, _full(source)]
    body.append(left)
    return [(*taken, *(body if spins else _guarded(body, "l", 0)))] * count


def _queue(source: random.Random, count: int) -> list[_Steps]:
    """One fills places, the others take one each."""
    tasks = source.randint(1, count - 1)
    gives = [Operation(WRITE, SLOTS[n], n + 1) for n in range(tasks)] + _released(source, "g", 1)
    takes = [*_awaited(source, "g", 1), Operation(ATOMIC, "f", 1, "relaxed", result="t", what="add")]
    took = [Operation(READ, "s", counted="t"), Operation(WRITE, "s", 7, counted="t")][: source.choice((1, 2))]
    if tasks < count - 1 or source.random() < 0.3:
        took = _guarded(took, "t", 0)
    return [tuple(gives), *[(*takes, *took)] * (count - 1)]


def _message(source: random.Random, count: int) -> list[_Steps]:
    """Something goes from one to the next, and maybe back."""
    first = [Operation(WRITE, "x", 1), *_released(source, "f", 1)]
    second = [*_awaited(source, "f", 1), source.choice((Operation(READ, "x"), Operation(WRITE, "x", 2)))]
    if count == 2:
        if source.random() < 0.6:
            second += _released(source, "g", 1)
            first += [*_awaited(source, "g", 1), Operation(WRITE, "x", 1)]
        return [tuple(first), tuple(second)]
    if source.random() < 0.5:
        return [tuple(first), tuple(second), (*_awaited(source, "f", 1), Operation(READ, "x"))]
    second += _released(source, "g", 1)
    return [tuple(first), tuple(second), (*_awaited(source, "g", 1), Operation(WRITE, "x", 1))]


def _barriered(source: random.Random, count: int) -> list[_Steps]:
    """Two threads of a CTA meet, one of them has told a third, or hears of it."""
    meets = Operation(BARRIER)
    if source.random() < 0.5:
        first, second = [Operation(WRITE, "x", 1), meets], [meets, *_released(source, "f", 1)]
    else:
        first, second = (
            [meets, source.choice((Operation(READ, "x"), Operation(WRITE, "x", 2)))],
            [Operation(WRITE, "x", 1), meets],
        )
        return [tuple(first), tuple(second), (Operation(READ, "y"),)][:count]
    looks = Operation(READ, "f", 0, "acquire", result="a")
    return [tuple(first), tuple(second), (looks, *_guarded([Operation(READ, "x")], "a", 1))][:count]


_PROTOCOLS = (_places, _places, _last, _last, _lock, _queue, _message, _barriered)


def _broken(source: random.Random, own: _Steps) -> _Steps:
    """The same with something wrong, or only different."""
    at = source.randrange(len(own))
    o = own[at]
    changes: list[list[Operation]] = []
    if o.kind != BARRIER and o.until < 0 and len(own) > 1:
        changes.append([])
    if o.kind == FENCE:
        changes += [[o._replace(scope="cta")], [o._replace(scope="cluster")], [o._replace(order="acq_rel")]]
    elif o.place:
        if o.order != WEAK:
            changes += [[o._replace(scope="cta")], [o._replace(scope="cluster")], [o._replace(order="relaxed")]] * 2
            if o.kind != ATOMIC and o.until < 0:
                changes.append([o._replace(order=WEAK)])
        else:
            changes.append([o._replace(order="relaxed")])
        if o.guard:
            changes += [[o._replace(guard=None)], [o._replace(guard=(o.guard[0], o.guard[1], not o.guard[2]))]]
        if not o.counted and o.until < 0:
            place = source.choice((*DATA[:1], *FLAGS))
            changes.append([o, source.choice((Operation(READ, place), Operation(WRITE, place, 1)))])
    if (
        at + 1 < len(own)
        and BARRIER not in (o.kind, own[at + 1].kind)
        and not own[at + 1].guard
        and not own[at + 1].counted
    ):
        return (*own[:at], own[at + 1], o, *own[at + 2 :]) if source.random() < 0.2 else _with(source, own, at, changes)
    return _with(source, own, at, changes)


def _with(source: random.Random, own: _Steps, at: int, changes: list[list[Operation]]) -> _Steps:
    return (*own[:at], *source.choice(changes), *own[at + 1 :]) if changes else own


def together_program(source: random.Random) -> Program:
    """One of these whose threads are lanes of one warp; they meet at no barrier."""
    while True:
        program = source.choice((strong_program, protocol_program))(source)
        if not any(o.kind == BARRIER for thread in program for o in thread.operations):
            return tuple(thread._replace(cta=0, cluster=-1) for thread in program)


# -- vectors ----------------------------------------------------------------------------------------------------------
_WHOLE = (("x", "y"), ("f", "g"))


def vector_program(source: random.Random) -> Program:
    """One of these some of whose loads and stores are of vectors: two words, or four where they are weak."""
    while True:
        program = source.choice((strong_program, protocol_program, pattern_program))(source)
        made = tuple(t._replace(operations=tuple(_widened(source, t.operations))) for t in program)
        operations = [o for thread in made for o in thread.operations]
        if any(o.joined for o in operations) and len(operations) <= MOST_EVENTS + 2:
            return made


def _widened(source: random.Random, operations: tuple[Operation, ...]) -> Iterator[Operation]:
    for o in operations:
        whole: tuple[str, ...] = next((pair for pair in _WHOLE if o.place in pair), ())
        if o.kind not in (READ, WRITE) or not whole or o.until >= 0 or source.random() < 0.5:
            yield o
            continue
        if o.order == WEAK and source.random() < 0.2:
            whole = PLACES[:4]
        volatile = o.order == WEAK and source.random() < 0.3
        for place in whole:
            own = place == o.place
            value = o.value if own else source.choice((1, 2)) if o.kind == WRITE else 0
            result = o.result if own or not o.result or source.random() < 0.5 else f"{o.result}{place}"
            yield o._replace(
                place=place,
                value=value,
                result=result if own or result != o.result else "",
                volatile=volatile,
                joined=place != whole[-1],
            )


# -- fences that a read decides -----------------------------------------------------------------------------------
def guarded_program(source: random.Random) -> Program:
    """One thread reads, and that decides whether a fence comes before a strong write; who sees that write may store to
    what was read."""
    while True:
        place = source.choice(("x", "x", "g"))
        threads = [_guarded_release(source, place), _answer(source, place)]
        if source.random() < 0.3:
            threads.append(source.choice((_answer(source, place), [_data(source, None)], [_raise(source, "g")])))
        made = [tuple(own) for own in threads]
        for _ in range(source.choice((0, 0, 1, 1, 2))):
            n = source.randrange(len(made))
            if made[n]:
                made[n] = _broken(source, made[n])
        ctas = source.choice((range(3), range(3), range(3), (0, 0, 0), (0, 0, 1), (0, 1, 1)))
        clustered = source.random() < 0.15
        if sum(map(len, made)) <= MOST_EVENTS and all(made):
            return tuple(Thread(ctas[n], own, ctas[n] // 2 if clustered else -1) for n, own in enumerate(made))


def _guarded_release(source: random.Random, place: str) -> list[Operation]:
    """A read that decides on a fence, and a strong write."""
    order = (
        source.choice((WEAK, WEAK, "relaxed", "acquire")) if place in DATA else source.choice(("relaxed", "acquire"))
    )
    read = Operation(READ, place, 0, order, _scope(source) if order != WEAK else "gpu", "b")
    if source.random() < 0.15:
        read = Operation(ATOMIC, place, 1, "relaxed", _scope(source), "b", "add")
    by = "b", source.choice((0, 0, 1)), source.random() < 0.8
    fence = _full(source)._replace(guard=by, scope=source.choice(("gpu", "gpu", "gpu", "cta", "cluster")))
    made = [Operation(WRITE, "y", 1)] * (source.random() < 0.4) + [read, fence]
    how = source.random()
    if how < 0.2:
        made.append(_full(source)._replace(guard=("b", by[1], not by[2])))
    elif how < 0.3:
        made.append(_full(source))
    write = _raise(source, "f")
    return [*made, write._replace(guard=source.choice((None, None, None, by)))]


def _answer(source: random.Random, place: str) -> list[Operation]:
    """A thread that stores where another one reads, once it sees a flag."""
    seen = "a", 1, True
    looks = _awaited(source, "f", 1) if source.random() < 0.2 else [_look(source, "f", "a")]
    looks += [o._replace(guard=seen) for o in _fence(source, 0.4)] if looks[0].until < 0 else []
    order = WEAK if source.random() < 0.7 else source.choice(("relaxed", "release"))
    store = Operation(WRITE, place, source.choice((1, 1, 2)), order, _scope(source) if order != WEAK else "gpu")
    rest = [store, *[source.choice((Operation(READ, "y"), Operation(WRITE, "y", 2)))] * (source.random() < 0.4)]
    return [*looks, *(rest if looks[0].until >= 0 else [o._replace(guard=seen) for o in rest])]


# -- release and acquire patterns -----------------------------------------------------------------------------------
def pattern_program(source: random.Random) -> Program:
    """Messages whose release and acquire patterns are of several accesses: a `cas` that fails among them, stores over
    what was read, reads before the one that acquires."""
    while True:
        threads = [_sends(source), _hears(source)]
        if source.random() < 0.5:
            threads.insert(1, [*_hears(source)[:-1], *_sends(source)[1:]] if source.random() < 0.7 else _sends(source))
        ctas = source.choice((range(3), range(3), (0, 0, 0), (0, 0, 1), (0, 1, 1)))
        clustered = source.random() < 0.15
        if sum(map(len, threads)) <= MOST_EVENTS:
            return tuple(
                Thread(ctas[n], tuple(own), ctas[n] // 2 if clustered else -1) for n, own in enumerate(threads)
            )


def _sends(source: random.Random) -> list[Operation]:
    """A store, and strong accesses some of which release it."""
    made = [Operation(WRITE, "x", 1)]
    made += [_step(source, ("relaxed", "release", "acq_rel")) for _ in range(source.choice((1, 1, 2, 3)))]
    if source.random() < 0.2:
        made.insert(source.randint(1, len(made)), _fence(source, 1.0)[0])
    return made


def _hears(source: random.Random) -> list[Operation]:
    """Strong accesses some of which acquire, and an access where the last one has read something."""
    made = [
        _step(source, ("relaxed", "acquire", "acq_rel"), f"b{k}")._replace(
            guard=(f"b{k - 1}", source.choice((1, 1, 2)), True) if k and source.random() < 0.4 else None
        )
        for k in range(source.choice((1, 2, 2, 3)))
    ]
    seen = source.choice([o.result for o in made if o.result] or ["b0"]), source.choice((1, 1, 2, 3)), True
    if source.random() < 0.2:
        made.append(_fence(source, 1.0)[0])
    return [*made, source.choice((Operation(READ, "x"), Operation(WRITE, "x", 2)))._replace(guard=seen)]


def _step(source: random.Random, orders: tuple[str, ...], result: str = "") -> Operation:
    """A strong access of one of two flags."""
    place, order = source.choice(("f", "f", "g")), source.choice(orders)
    what = source.random()
    if what < 0.3 and order != "acq_rel" and (not result or order != "acquire"):
        return Operation(WRITE, place, source.choice((1, 2)), order, _scope(source))
    if what < 0.55 and result and order != "acq_rel":
        return Operation(READ, place, 0, order, _scope(source), result)
    kind = source.choice(("cas", "cas", "add", "exch"))
    return Operation(ATOMIC, place, source.choice((1, 1, 2)), order, _scope(source), result, kind)


STRONG_FAMILIES = {
    "patterns": pattern_program,
    "guarded": guarded_program,
    "strong": strong_program,
    "protocols": protocol_program,
    "together": together_program,
    "vectors": vector_program,
}


# -- judging ----------------------------------------------------------------------------------------------------------
class Judged(NamedTuple):
    """What the model and wsemu say of a program."""

    program: Program
    found: Found
    verdict: str
    """empty of one that was not enumerated"""
    codes: tuple[str, ...]
    space: str
    complaint: str
    out_of_order: bool = False
    """whether it goes wrong only where a thread's accesses to one place are performed out of program order, which PTX
    excludes only among morally strong accesses; no GPU does that (docs/semantics.md, "Weak memory")"""

    @property
    def can(self) -> str:
        """What the model says, in words."""
        if not self.found.known:
            return "not enumerated"
        if self.out_of_order:
            return "goes wrong only out of order"
        wrong = ["races"] * self.found.racing + ["hangs"] * self.found.hanging
        return " and ".join(wrong) or ("stores one value" if self.found.same else "is right")

    def __str__(self) -> str:
        return f"{self.complaint}: {notation(self.program)} in {self.space} memory: {self.can}, {self.codes}"


def verdict(
    program: Program, engine: Any = "vm", space: str = "global", *, together: bool = False
) -> tuple[str, tuple[str, ...]]:
    """wsemu's verdict, and the codes of its errors, with the warnings that tell of races: `missing-fence`, and
    `same-value-store`, and `strong-vector`."""
    source, grid, warps = ptx(program, space, together=together)
    cluster = 2 if any(thread.cluster >= 0 for thread in program) else None
    grid += grid % 2 if cluster else 0
    kernel = wsemu.load_ptx(source)["k"]
    report = wsemu.check(kernel, grid, 32 * warps, (np.zeros(16, np.uint32),), cluster=cluster, engine=engine)
    told = {f.code for f in report.findings if f.severity == "error" or f.code in (MISSING, SAME, WHOLE)}
    return report.verdict, tuple(sorted(told))


@contextmanager
def counting() -> Iterator[None]:
    """Let CTAs be counted, where they can be, also in launches whose few orders would be tried first."""
    with mock.patch.object(decide, "FEW_STEPS", 1), mock.patch.object(Messages, "is_proven", return_value=False):
        yield


@contextmanager
def drawing() -> Iterator[None]:
    """Let each CTA be given all numbers that it may draw, also in launches whose few orders would be tried first."""
    with mock.patch.object(decide, "FEW_STEPS", 1), mock.patch.object(decide, "FEW_COPYING_STEPS", 1):
        yield


def judged_strong(program: Program, engine: Any = "vm", space: str = "global", *, together: bool = False) -> Judged:
    found = explore(program, up_to_wrong=True)
    if not found.known:
        return Judged(program, found, "", (), space, "")
    said, codes = verdict(program, engine, space, together=together)
    if said == "verified" and WHOLE in codes:
        found = explore(program, up_to_wrong=True, vectors_are_one=True)
    complaint = "missed" if found.wrong and said == "verified" and MISSING not in codes else ""
    if complaint:
        in_order = explore(program, up_to_wrong=True, places_in_order=True)
        if in_order.whole and not in_order.wrong and not in_order.same:
            return Judged(program, found, said, codes, space, "", out_of_order=True)
    if not found.wrong and not found.same and (said == "failed" or SAME in codes):
        complaint = "false alarm"
    elif not found.wrong and found.same:
        complaint = _of_one_value(program, said, codes)
    return Judged(program, found, said, codes, space, complaint)


def _of_one_value(program: Program, said: str, codes: tuple[str, ...]) -> str:
    """What is wrong with the verdict on a program whose races are of weak stores of one value alone.  Where results of
    atomics decide what is done, or plain loads read what atomics write, all orders are tried, and such a race stays one
    there (docs/limits.md)."""
    operations = [o for thread in program for o in thread.operations]
    steered = any(o.guard or o.counted or o.until >= 0 for o in operations) or not {
        o.place for o in operations if o.kind == READ and o.order == WEAK
    }.isdisjoint(o.place for o in operations if o.kind == ATOMIC)
    if said == "incomplete":
        return ""
    if said == "verified":
        return "" if SAME in codes else "missed"
    return "" if steered and {*codes} <= {"race", "intra-warp-race", WHOLE} else "false alarm"


def space_for(program: Program, source: random.Random) -> str:
    """Where its places lie: one CTA may have them in shared memory."""
    alone = len({thread.cta for thread in program}) == 1
    return "shared" if alone and source.random() < 0.5 else "global"
