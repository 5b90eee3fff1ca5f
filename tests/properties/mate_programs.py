"""Random programs of a few lanes of one warp, every interleaving of them, and wsemu's verdict on them.

Lanes of a warp go on by themselves (independent thread scheduling, sm_70 and later): they communicate through memory,
and meet in warp-wide operations.  A program is a block that all lanes run, as `3: W(1,0,5) Y(all) {1: S(1,0) | R(0,2)}`
is: 3 lanes live, the others of the warp have returned before it.

    W(a,b,v)  a store of v to word (a lane + b) % 4, v + lane where v is even, what the lane holds where it is -1;
    R(a,b) and A(a,b)    a load, and an atomic addition of 1
    Y(m)  S(m,l)  B(m)   syncwarp, shuffle from lane l and ballot of the lanes in the mask m; all: of the whole warp
    K     F              `barrier.sync 0`; a fence, which orders nothing among lanes that no atomic tells of it
    X(m)                 the lanes of m return
    {m: block | block}   a branch on lanes

A program with `calls` does so in a function that calls itself: a part of it before the call, the next one in the
innermost call, the rest behind; how deep that is may depend on the lane.

Each lane holds a number: what it loads, shuffles or votes becomes a part of that, and lies in `out` in the end.  The
positions of lanes do not depend on values: all tuples of them that some interleaving comes to are visited.

*   a lane at a warp-wide operation goes on when all lanes of its mask that have not returned are there;
*   one at `barrier.sync` when all lanes that have not returned are at some (B14);
*   two lanes race if both may access a word next, one of them writes, and not both are atomic: one store of one value
    by several lanes is no race where they execute it together, and left open;
*   where all that races are stores of one value by two statements, that is no fault, but a warning.

It is wrong to race, to hang, not to be in one's own mask, to shuffle from a lane that takes no part.  What wsemu says
of lanes that a mask names and that pass the operation by, also by waiting at another depth, is left open.  This file
asks wsemu for its verdict alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import wsemu

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator

WORDS = 4
WHOLE = (1 << 32) - 1
ACCESSES, MEETS = "WRA", "YSB"
RACE, HANG, UNDEFINED, MASK = "race", "hang", "undefined shuffle", "not in its mask"
PASSED, SAME = "passed by", "same value"
OPEN = frozenset((PASSED, SAME))
ONE_VALUE = "stores of one value"
WARNING = "same-value-store"


class Op(NamedTuple):
    kind: str
    a: int = 0
    b: int = 0
    value: int = 0
    """of a store; the lane of a shuffle"""
    mask: int = WHOLE


class Branch(NamedTuple):
    mask: int
    then: Block
    other: Block


Block = tuple["Op | Branch", ...]


class Program(NamedTuple):
    lanes: int
    block: Block
    shared: bool = False
    """where its words lie"""
    calls: tuple[int, ...] = ()
    """(statements before the call, those before its end, bits of the lane that make it deeper)"""

    def __str__(self) -> str:
        calls = f" calls{self.calls}" if self.calls else ""
        return f"{self.lanes}{' shared' * self.shared}{calls}: {_text(self.block)}"


def _text(block: Block) -> str:
    return " ".join(map(_one, block))


def _one(statement: Op | Branch) -> str:
    if isinstance(statement, Branch):
        return f"{{{statement.mask}: {_text(statement.then)} | {_text(statement.other)}}}"
    kind, a, b, value, mask = statement
    named = "all" if mask == WHOLE else str(mask)
    arguments = {"W": f"({a},{b},{value})", "R": f"({a},{b})", "A": f"({a},{b})", "S": f"({named},{value})"}
    return kind + arguments.get(kind, f"({named})" if kind in "YBX" else "")


# -- what each lane does ----------------------------------------------------------------------------------------------
Path = tuple[tuple[int, Op], ...]
"""(number of the statement, operation), the last one a return"""


_LAST = 1 << 30


def _statements(block: Block) -> Iterator[Op]:
    """Those of a block and of the branches in it, as they stand."""
    for statement in block:
        if isinstance(statement, Branch):
            yield from _statements(statement.then)
            yield from _statements(statement.other)
        else:
            yield statement


def paths(program: Program) -> tuple[Path, ...]:
    numbers = {id(statement): number for number, statement in enumerate(_statements(program.block))}

    def walk(block: Block, lane: int) -> Iterator[tuple[int, Op]]:
        for statement in block:
            if isinstance(statement, Branch):
                yield from walk(statement.then if statement.mask >> lane & 1 else statement.other, lane)
            else:
                number = numbers[id(statement)]
                if statement.kind != "X":
                    yield number, statement
                elif statement.mask >> lane & 1:
                    yield number, statement
                    return

    def path(lane: int) -> Iterator[tuple[int, Op]]:
        steps = tuple(walk(program.block, lane))
        yield from steps
        if program.shared and not (steps and steps[-1][1].kind == "X"):
            yield _LAST, Op("Y")  # before lane 0 takes the words along
        yield -1, Op("X")

    return tuple(tuple(path(lane)) for lane in range(program.lanes))


def _word(op: Op, lane: int) -> int:
    return (op.a * lane + op.b) % WORDS


def _stored(op: Op, lane: int) -> int | None:
    """What a store writes, where that does not depend on what was read."""
    return None if op.value < 0 else op.value + (lane if op.value % 2 == 0 else 0)


# -- every interleaving -----------------------------------------------------------------------------------------------
Places = tuple[int, ...]


class _Lanes:
    """The positions of all lanes, and who may go on."""

    def __init__(self, program: Program) -> None:
        self.paths = paths(program)
        self.all = range(program.lanes)
        self.stores: set[frozenset[tuple[int, int]]] = set()
        """two stores, each as (lane, place), that may come next together"""

    def live(self, places: Places) -> dict[int, tuple[int, Op]]:
        """The next operation of each lane that has not returned."""
        following = {lane: self.paths[lane][places[lane]] for lane in self.all}
        return {lane: (number, op) for lane, (number, op) in following.items() if op.kind != "X"}

    def moves(self, places: Places) -> Iterator[tuple[int, ...]]:
        """The lanes that may go on next, those that do so together."""
        live = self.live(places)
        if live and all(op.kind == "K" for _, op in live.values()):
            yield tuple(live)
        for lane, (number, op) in live.items():
            if op.kind in MEETS:
                named = [other for other in live if op.mask >> other & 1]
                there = all(live[other][0] == number for other in named)
                if there and (not named or lane == named[0]):
                    yield tuple(named)
            elif op.kind != "K":
                yield (lane,)

    def after(self, places: Places, moving: tuple[int, ...]) -> Places:
        return tuple(place + (lane in moving) for lane, place in enumerate(places))

    def faults(self, places: Places) -> Iterator[str]:
        """What is wrong, or open, where lanes stand so."""
        live = self.live(places)
        for lane, (number, op) in live.items():
            if op.kind in MEETS:
                yield from self._meeting(live, lane, number, op, places[lane] + 1)
            for other, (second, peer) in live.items():
                if other > lane and op.kind in ACCESSES and peer.kind in ACCESSES:
                    if op.kind == peer.kind == "W" and number != second and _word(op, lane) == _word(peer, other):
                        self.stores.add(frozenset(((lane, places[lane]), (other, places[other]))))
                        continue
                    yield from self._conflict((lane, number, op), (other, second, peer))
        if live and not any(self.moves(places)):
            yield HANG

    def _meeting(self, live: dict[int, tuple[int, Op]], lane: int, number: int, op: Op, after: int) -> Iterator[str]:
        """Yield the faults of a lane at a warp-wide operation; `after` is the next place in its path."""
        if not op.mask >> lane & 1:
            yield MASK
        if not all(self._comes(other, number) for other in self.all if op.mask >> other & 1):
            yield PASSED
        there = op.mask >> op.value & 1 and op.value in live and self._comes(op.value, number)
        if op.kind == "S" and not there and self._reaches_memory(lane, after):
            yield UNDEFINED

    def _reaches_memory(self, lane: int, place: int) -> bool:
        """Return whether memory depends on the number that a lane holds at a place: it stores the number, or another
        lane gets it and stores it.  A lane that returns early does not store its number in `out`."""
        for number, op in self.paths[lane][place:]:
            if op.kind == "X":
                return number == -1
            if op.kind == "W" and op.value < 0:
                return True
            if op.kind == "B" or (op.kind == "S" and op.value == lane):
                takers = [(other, self._place(other, number)) for other in self.all if op.mask >> other & 1]
                if any(other != lane and it >= 0 and self._reaches_memory(other, it + 1) for other, it in takers):
                    return True
        raise AssertionError(f"lane {lane} does not return")

    def _place(self, lane: int, number: int) -> int:
        """Return where a lane executes a statement, or -1 if it does not."""
        return next((place for place, (n, _) in enumerate(self.paths[lane]) if n == number), -1)

    def _comes(self, lane: int, number: int) -> bool:
        """Whether a lane executes a statement, or returns before it by one that says so."""
        *rest, (last, _) = self.paths[lane]
        found = [n for n, _ in rest]
        returned = bool(rest) and rest[-1][1].kind == "X"
        return number in found or (returned and found[-1] < number) or (not returned and last == number)

    def _conflict(self, one: tuple[int, int, Op], two: tuple[int, int, Op]) -> Iterator[str]:
        (lane, number, op), (other, second, peer) = one, two
        kinds = op.kind + peer.kind
        if _word(op, lane) != _word(peer, other) or kinds in ("RR", "AA"):
            return
        if number == second and kinds == "WW" and _stored(op, lane) == _stored(peer, other):
            yield SAME  # known to be the same, or not known
            return
        yield RACE


def faults(program: Program) -> frozenset[str]:
    """What can go wrong in some interleaving, and what is left open."""
    lanes = _Lanes(program)
    start = (0,) * program.lanes
    seen, todo, found = {start}, [start], set[str]()
    while todo:
        places = todo.pop()
        found.update(lanes.faults(places))
        for moving in lanes.moves(places):
            after = lanes.after(places, moving)
            if after not in seen:
                seen.add(after)
                todo.append(after)
    if lanes.stores:
        # what is stored is the same in all interleavings, if all else is ordered: nothing holds what an atomic returned
        written = stored(program)
        alike = all(len({written.get(store, -1) for store in pair}) == 1 for pair in lanes.stores)
        found.add(ONE_VALUE if alike and not found - OPEN else RACE)
    return frozenset(found)


_WORD = (1 << 32) - 1


def stored(program: Program) -> dict[tuple[int, int], int]:
    """(lane, place) of each store of one interleaving -> what it writes."""
    written: dict[tuple[int, int], int] = {}
    results(program, written)
    return written


def results(program: Program, written: dict[tuple[int, int], int] | None = None) -> tuple[list[int], list[int]]:
    """(words, numbers that lanes hold in the end, 0 of one that returns earlier), where nothing is wrong."""
    lanes = _Lanes(program)
    places: Places = (0,) * program.lanes
    words, held = [0] * WORDS, [lane + 1 for lane in lanes.all]
    while moving := next(lanes.moves(places), ()):
        _step(lanes, places, moving, words, held)
        for lane in moving if written is not None else ():
            op = lanes.paths[lane][places[lane]][1]
            if op.kind == "W":
                written[lane, places[lane]] = words[_word(op, lane)]  # type: ignore[index]
        places = lanes.after(places, moving)
    early = [len(lanes.paths[lane]) > places[lane] + 1 for lane in lanes.all]
    return words, [0 if early[lane] else held[lane] for lane in lanes.all]


def _step(lanes: _Lanes, places: Places, moving: tuple[int, ...], words: list[int], held: list[int]) -> None:
    before = list(held)
    votes = sum(1 << lane for lane in moving if before[lane] & 1)
    for lane in moving:
        op = lanes.paths[lane][places[lane]][1]
        got = None
        if op.kind == "W":
            value = _stored(op, lane)
            words[_word(op, lane)] = held[lane] if value is None else value
        elif op.kind == "A":
            words[_word(op, lane)] += 1
        elif op.kind == "R":
            got = words[_word(op, lane)]
        elif op.kind in "SB":
            got = before[op.value] if op.kind == "S" else votes
        if got is not None:
            held[lane] = (held[lane] * 3 + got) & _WORD


# -- as PTX -----------------------------------------------------------------------------------------------------------
_HEAD = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 words, .param .u64 out)
{{ .reg .pred %p; .reg .b32 %r<20>; .reg .b64 %rd<9>; .shared .align 4 .b8 tile[16];
mov.u32 %r1, %tid.x; add.u32 %r2, %r1, 1; mov.u32 %r3, 1; shl.b32 %r3, %r3, %r1; mov.u32 %r9, 0;
ld.param.u64 %rd1, [words];
setp.ge.u32 %p, %r1, {lanes}; @%p bra done;
"""
_SHARED = """mov.u64 %rd1, tile; setp.ne.u32 %p, %r1, 0; @%p bra begin;
st.shared.v4.u32 [%rd1], {%r9, %r9, %r9, %r9};
begin: bar.warp.sync -1;
"""
_END = """ld.param.u64 %rd3, [out]; mul.wide.u32 %rd4, %r1, 4; add.u64 %rd3, %rd3, %rd4; st.global.u32 [%rd3], %r2;
{copy}
done: ret; }}
"""
_COPY = """bar.warp.sync -1; setp.ne.u32 %p, %r1, 0; @%p bra done;
ld.shared.v4.u32 {%r10, %r11, %r12, %r13}, [%rd1]; ld.param.u64 %rd5, [words];
st.global.v4.u32 [%rd5], {%r10, %r11, %r12, %r13};
"""


_FUNCTION = """.version 8.0
.target sm_90
.address_size 64
.func (.param .b32 gives) f(.param .b32 deep, .param .b32 first, .param .b32 held, .param .b64 words)
{{ .reg .pred %p, %first; .reg .b32 %r<20>, %n; .reg .b64 %rd<9>;
ld.param.u32 %n, [deep]; ld.param.u32 %r9, [first]; ld.param.u32 %r2, [held]; ld.param.u64 %rd1, [words];
mov.u32 %r1, %tid.x; mov.u32 %r3, 1; shl.b32 %r3, %r3, %r1; setp.ne.u32 %first, %r9, 0;
setp.ne.u32 %p, %n, 0; @%p bra deeper;
{inside}
bra last;
deeper: @!%first bra call;
{before}
call: sub.u32 %n, %n, 1;
{{ .param .b32 a; .param .b32 b; .param .b32 c; .param .b64 d; .param .b32 e; st.param.b32 [a], %n; st.param.b32 [b], 0;
st.param.b32 [c], %r2; st.param.b64 [d], %rd1; call (e), f, (a, b, c, d); ld.param.b32 %r2, [e]; }}
@!%first bra last;
{behind}
last: st.param.b32 [gives], %r2; ret;
done: exit;
}}
"""
_CALL = """and.b32 %r4, %r1, {deeper}; add.u32 %r4, %r4, 1;
{{ .param .b32 a; .param .b32 b; .param .b32 c; .param .b64 d; .param .b32 e; st.param.b32 [a], %r4;
st.param.b32 [b], 1; st.param.b32 [c], %r2; st.param.b64 [d], %rd1; call (e), f, (a, b, c, d); ld.param.b32 %r2, [e]; }}
"""


class _Writer:
    def __init__(self, program: Program) -> None:
        self.space = "shared" if program.shared else "global"
        self.labels = 0

    def block(self, block: Block) -> Iterator[str]:
        for statement in block:
            yield from self._branch(statement) if isinstance(statement, Branch) else self._op(statement)

    def _branch(self, branch: Branch) -> Iterator[str]:
        self.labels += 1
        n = self.labels
        yield f"and.b32 %r4, %r3, {branch.mask}; setp.eq.u32 %p, %r4, 0; @%p bra E{n};"
        yield from self.block(branch.then)
        yield f"bra J{n};\nE{n}:"
        yield from self.block(branch.other)
        yield f"J{n}:"

    def _op(self, op: Op) -> Iterator[str]:
        if op.kind in ACCESSES:
            yield f"mad.lo.u32 %r4, %r1, {op.a}, {op.b}; and.b32 %r4, %r4, 3; mul.wide.u32 %rd2, %r4, 4;"
            yield "add.u64 %rd2, %rd1, %rd2;"
        yield from {
            "W": self._store, "R": self._load, "A": lambda _: [f"red.relaxed.cta.{self.space}.add.u32 [%rd2], 1;"],
            "Y": lambda o: [f"bar.warp.sync {o.mask};"], "K": lambda _: ["barrier.sync 0;"],
            "F": lambda _: ["fence.acq_rel.cta;"], "S": self._shuffle, "B": self._ballot, "X": self._return,
        }[op.kind](op)  # fmt: skip

    def _store(self, op: Op) -> list[str]:
        if op.value < 0:
            return [f"st.{self.space}.u32 [%rd2], %r2;"]
        own = f"add.u32 %r5, %r1, {op.value};" if op.value % 2 == 0 else f"mov.u32 %r5, {op.value};"
        return [own, f"st.{self.space}.u32 [%rd2], %r5;"]

    def _load(self, op: Op) -> list[str]:
        return [f"ld.{self.space}.u32 %r5, [%rd2]; mad.lo.u32 %r2, %r2, 3, %r5;"]

    def _shuffle(self, op: Op) -> list[str]:
        return [f"shfl.sync.idx.b32 %r5, %r2, {op.value}, 31, {op.mask}; mad.lo.u32 %r2, %r2, 3, %r5;"]

    def _ballot(self, op: Op) -> list[str]:
        ask = "and.b32 %r4, %r2, 1; setp.ne.u32 %p, %r4, 0;"
        return [f"{ask} vote.sync.ballot.b32 %r5, %p, {op.mask}; mad.lo.u32 %r2, %r2, 3, %r5;"]

    def _return(self, op: Op) -> list[str]:
        return [f"and.b32 %r4, %r3, {op.mask}; setp.ne.u32 %p, %r4, 0; @%p bra done;"]


def ptx(program: Program) -> str:
    writer = _Writer(program)
    begin, copy = (_SHARED, _COPY) if program.shared else ("", "")
    head, end = _HEAD.format(lanes=program.lanes) + begin, _END.format(copy=copy)
    if not program.calls:
        return head + "\n".join(writer.block(program.block)) + "\n" + end
    first, last, deeper = program.calls
    cuts = program.block[:first], program.block[first:last], program.block[last:]
    before, inside, behind = ("\n".join(writer.block(part)) for part in cuts)
    function = _FUNCTION.format(before=before, inside=inside, behind=behind)
    return function + head[head.index(".visible") :] + _CALL.format(deeper=deeper) + end


# -- random ones ------------------------------------------------------------------------------------------------------
def mate_program(source: random.Random) -> Program:
    """Two to four lanes."""
    lanes = source.choice((2, 2, 3, 3, 4))
    full = (1 << lanes) - 1
    made = _phases(source, lanes, full) if source.random() < 0.6 else _drawn(source, lanes, full, 6, 2)
    for _ in range(source.choice((0, 0, 1, 1, 2))):
        made = _broken(source, made, lanes)
    if source.random() < 0.3:
        made = _reread(source, made)
    return _anew(Program(lanes, made, source.random() < 0.4))


def _reread(source: random.Random, block: Block) -> Block:
    """A load that is repeated at once, and perhaps again after a fence, by other lanes."""
    at = [n for n, one in enumerate(block) if isinstance(one, Op) and one.kind == "R"]
    if not at:
        return block
    n = source.choice(at)
    one = block[n]
    assert isinstance(one, Op)
    again = [one, Op("F"), one._replace(b=(one.b + 1) % WORDS)]
    return (*block[: n + 1], *again[: source.choice((1, 2, 3, 3))], *block[n + 1 :])


def _anew(program: Program) -> Program:
    """Each statement an object of its own: they are told apart by that."""

    def copied(block: Block) -> Block:
        return tuple(
            Branch(s.mask, copied(s.then), copied(s.other)) if isinstance(s, Branch) else Op(*s) for s in block
        )

    return program._replace(block=copied(program.block))


def _phases(source: random.Random, lanes: int, inside: int) -> Block:
    """Lanes write, meet, and look at what others have written."""
    made: list[Op | Branch] = []
    for _ in range(source.choice((1, 2, 2))):
        made.append(Op("W", 1, source.randrange(2), source.choice((-1, 2, 5))))
        made.append(_meeting(source, lanes, inside))
        made.append(Op("R", 1, source.randrange(1, 4)))
        if source.random() < 0.7:
            made.append(_meeting(source, lanes, inside))
    if source.random() < 0.4:
        at = source.randrange(len(made) + 1)
        made.insert(at, _parted(source, lanes, inside, 2))
    return tuple(made)


def _meeting(source: random.Random, lanes: int, inside: int) -> Op:
    kind = source.choice("YYYYSBK") if inside == (1 << lanes) - 1 else source.choice("YYYSB")
    mask = inside
    if inside == (1 << lanes) - 1 and source.random() < 0.4:
        mask = WHOLE
    elif source.random() < 0.05:
        mask = source.randrange(1, 1 << lanes)
    within = [lane for lane in range(lanes) if mask >> lane & 1]
    return Op(kind, value=source.choice(within) if kind == "S" else 0, mask=mask)


def _parted(source: random.Random, lanes: int, inside: int, longest: int) -> Op | Branch:
    """A branch on lanes, each side with what its own lanes do."""
    mask = source.randrange(1, 1 << lanes)
    then, other = (
        _drawn(source, lanes, part, longest, 1) if part and source.random() < 0.8 else ()
        for part in (inside & mask, inside & ~mask)
    )
    return Branch(mask, then, other)


def _drawn(source: random.Random, lanes: int, inside: int, longest: int, deep: int) -> Block:
    made: list[Op | Branch] = []
    for _ in range(source.randint(1, longest)):
        kind = source.random()
        if kind < 0.5:
            own = source.random() < 0.7
            op = Op(source.choice("WWRRRA"), int(own), source.randrange(4) * (source.random() < 0.5))
            made.append(op._replace(value=source.choice((-1, 2, 5)) if op.kind == "W" else 0))
        elif kind < 0.8:
            made.append(_meeting(source, lanes, inside))
        elif kind < 0.84:
            made.append(Op("F"))
        elif kind < 0.88 and inside == (1 << lanes) - 1:
            made.append(Op("X", mask=source.randrange(1, 1 << lanes)))
        elif deep > 1:
            made.append(_parted(source, lanes, inside, 3))
    return tuple(made)


def _broken(source: random.Random, block: Block, lanes: int) -> Block:
    """One statement left out, at another place, with another mask, or in a branch."""
    if not block:
        return block
    at = source.randrange(len(block))
    one = block[at]
    if isinstance(one, Branch) and source.random() < 0.8:
        then, other = one.then, one.other
        if source.random() < 0.5:
            then = _broken(source, then, lanes)
        else:
            other = _broken(source, other, lanes)
        return (*block[:at], Branch(one.mask, then, other), *block[at + 1 :])
    how = source.randrange(4)
    if how == 0:
        return (*block[:at], *block[at + 1 :])
    if how == 1 and at + 1 < len(block):
        return (*block[:at], block[at + 1], one, *block[at + 2 :])
    mask = source.randrange(1, 1 << lanes)
    if how == 2 and isinstance(one, Op) and one.kind in MEETS:
        return (*block[:at], one._replace(mask=mask), *block[at + 1 :])
    return (*block[:at], Branch(mask, (one,), (one,) if source.random() < 0.3 else ()), *block[at + 1 :])


def recursive_program(source: random.Random) -> Program:
    """One of these in a function that calls itself."""
    program = mate_program(source)
    first, last = sorted(source.choices(range(len(program.block) + 1), k=2))
    return program._replace(calls=(first, last, source.choice((0, 0, 1, 2, 3))))


MATE_FAMILIES: dict[str, Callable[[random.Random], Program]] = {"mates": mate_program, "recursive": recursive_program}


# -- judging ----------------------------------------------------------------------------------------------------------
class Judged(NamedTuple):
    """What the interleavings and wsemu say of a program."""

    program: Program
    faults: frozenset[str]
    verdict: str
    codes: tuple[str, ...]
    complaint: str

    @property
    def can(self) -> str:
        """What the interleavings say, in words."""
        wrong = self.faults - OPEN - {ONE_VALUE}
        return "can go wrong" if wrong else "is open" if self.faults else "is right"

    def __str__(self) -> str:
        return f"{self.complaint}: {self.program}: {sorted(self.faults)}, {self.verdict} {self.codes}"


def _apart(program: Program) -> bool:
    """Whether lanes come to statements at different depths: there others wait for them, which is to pass them by."""
    return len({lane & mask for lane in range(program.lanes) for mask in program.calls[2:]}) > 1


def judged_mates(program: Program, engine: Any = "vm") -> Judged:
    found = faults(program)
    words, out = np.zeros(WORDS, np.uint32), np.zeros(program.lanes, np.uint32)
    report = wsemu.check(wsemu.load_ptx(ptx(program))["k"], 1, 32, (words, out), engine=engine)
    codes = tuple(sorted({finding.code for finding in report.findings if finding.severity == "error"}))
    warned = any(finding.code == WARNING for finding in report.findings)
    complaint = "missed" if found - OPEN - {ONE_VALUE} and report.verdict == "verified" else ""
    if not found - {ONE_VALUE} and report.verdict == "verified" and warned != (ONE_VALUE in found):
        complaint = f"{WARNING} is {'' if warned else 'not '}found"
    found -= {ONE_VALUE}
    if not found and report.verdict == "failed" and not (_apart(program) and "barrier-divergence" in codes):
        complaint = "false alarm"
    if not found and report.verdict == "verified":
        wanted, held = results(program)
        returned = any(statement.kind == "X" for path in paths(program) for _, statement in path[:-1])
        same = (program.shared and returned) or words.tolist() == wanted
        if not same or out.tolist() != held:
            complaint = f"values {words.tolist()} {out.tolist()} for {wanted} {held}"
    return Judged(program, found, report.verdict, codes, complaint)


def smaller_mates(program: Program, fails: Callable[[Program], bool]) -> Program:
    """A part of it that still fails."""

    def parts(block: Block) -> Iterator[Block]:
        for at, one in enumerate(block):
            rest = block[:at], block[at + 1 :]
            yield (*rest[0], *rest[1])
            if isinstance(one, Branch):
                yield (*rest[0], *one.then, *rest[1])
                yield from ((*rest[0], one._replace(then=less), *rest[1]) for less in parts(one.then))
                yield from ((*rest[0], one._replace(other=less), *rest[1]) for less in parts(one.other))

    while True:
        candidates = (_anew(program._replace(block=block)) for block in parts(program.block))
        less = next((candidate for candidate in candidates if fails(candidate)), None)
        if less is None:
            return program
        program = less
