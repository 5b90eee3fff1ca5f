"""Random programs of threads that copy blocks of the device's heap in bulk, every interleaving of them, and wsemu's
verdict.

A program has two or three threads, of warps or lanes.  Each has the pointers p0 and p1, null at first, and a number
that it holds.  All share three areas of 48 bytes of shared memory, and an mbarrier for each load.  In a line, as
`warps: M0 32; V0+0=2; F; L0+0 32 1 0; Y0; E12; D0 | B`:

    M0 32            p0 = malloc(32)
    V0+16=2          a store of 2, 3, 4, 5 to 16 bytes of p0's block; W0+4=2 of one word
    R0+4             a load of a word of the block
    D0               free(p0)
    P0 2, G0 2       p0 goes to slot 2 by a plain store, comes from there by a plain load
    X4=2, E4         a store of 2, 3, 4, 5 to the words of shared memory from word 4 on, a load of word 4
    L0+16 32 1 k     a bulk load of 32 bytes at p0 + 16 into area 1, which mbarrier k expects
    Y0               a wait for mbarrier 0
    O0+16 32 1       a bulk store of area 1, a group of its own; A0+16 32 1 a bulk reduction, `add` of u32
    Q0, K1           wait_group.read 0, wait_group 1
    F                fence.proxy.async
    B                a barrier of all threads

All interleavings are visited, with vector clocks, in which copies are agents of their own: a load is one step at any
time after its issue, and a store reads in one step and writes in a later one.  The faults are: a race (`free` writes
to the whole block; two stores of one value are a warning), an access outside all blocks or to a freed one, a use of an
uninitialized word, a copy at an address that is not a multiple of 16, a copy of bytes that were written without a proxy
fence, a wait that never ends, and an exit before a load is complete.  Of wsemu, this file uses only the verdict.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import wsemu
from tests.properties.mistakes import break_program, without_barrier

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator, Sequence

    from wsemu.model.settings import Engine

RACE, BOUNDS, UNSET, ALIGN = "race", "out-of-bounds", "uninitialized-read", "misaligned"
PROXY, DEADLOCK, OUTLIVES = "proxy", "deadlock", "async-outlives-cta"
WAR, STORE_OUTLIVES, SAME = "proxy-war", "store-outlives-cta", "same-value-store"
CODES = {"intra-warp-race": RACE, "missing-fence": RACE}
"""codes of findings that report one of those faults under another name"""
PLACES = ("warps", "lanes")
SLOTS, POINTERS, BARRIERS = 2, 2, 8
AREAS, AREA = 3, 48
"""areas of shared memory, and the bytes of each"""
CELL = 16
"""bytes of which the address and the size of a bulk copy are multiples"""
HUGE = 1 << 24
"""bytes that no heap has, so that `malloc` returns null"""
MOST_STATES = 6_000
UNDEFINED = None
"""a word that nothing wrote"""


class Op(NamedTuple):
    kind: str
    v: int = 0
    """the pointer; for X and E, the word of shared memory; for Y, Q and K, their number"""
    n: int = 0
    """bytes of a block; for an address, the distance from the pointer; the slot"""
    value: int = 0
    size: int = 0
    area: int = 0
    barrier: int = 0

    def __str__(self) -> str:
        kind, v, n, value, size, area, barrier = self
        if kind == "L":
            return f"L{v}{n:+} {size} {area} {barrier}"
        if kind in "OA":
            return f"{kind}{v}{n:+} {size} {area}"
        if kind in "VW":
            return f"{kind}{v}{n:+}={value}"
        texts = {"R": f"R{v}{n:+}", "X": f"X{v}={value}", "F": "F", "B": "B"}
        return texts.get(kind, f"{kind}{v} {n}" if kind in "MPG" else f"{kind}{v}")


class Program(NamedTuple):
    place: str
    threads: tuple[tuple[Op, ...], ...]

    def __str__(self) -> str:
        return f"{self.place}: " + " | ".join("; ".join(map(str, ops)) for ops in self.threads)


_FORM = re.compile(r"([A-Z])(\d+)?(?: (\d+)(?!.* )| ?([+-]\d+))?(?:=(\d+))?(?: (\d+) (\d+)(?: (\d+))?)?")


def parse(line: str) -> Program:
    """Return the program of a line."""
    place, _, threads = line.partition(": ")
    made = ([text.strip() for text in ops.split(";")] for ops in threads.split("|"))
    return Program(place, tuple(tuple(_parsed(text) for text in texts if text) for texts in made))


def _parsed(text: str) -> Op:
    found = _FORM.fullmatch(text)
    assert found is not None, text
    kind, v, plain, n, *rest = found.groups()
    return Op(kind, int(v or 0), int(plain or n or 0), *(int(number or 0) for number in rest))


# -- every interleaving ------------------------------------------------------------------------------------------------
class Clock(NamedTuple):
    """The operations that a thread or a copy has observed: those of each agent up to a time."""

    h: tuple[int, ...]
    """operations that happened before"""
    blocks: tuple[int, ...]
    """plain accesses to blocks that are visible to bulk copies"""
    shared: tuple[int, ...]
    """plain accesses to shared memory that are visible to bulk copies"""


class Access(NamedTuple):
    agent: int
    time: int
    kind: str
    """r, w, or a (reduction)"""
    bulk: bool


Word = tuple[str, int, int]
"""("block", its number, its word), ("shared", 0, word) or ("slot", 0, slot)"""
_FREE_OF_RACES = ({"r"}, {"a"})


def _max(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(map(max, one, other))


def _join(one: Clock, other: Clock) -> Clock:
    return Clock(*map(_max, one, other))


class _State:
    """The positions of the threads, what they hold, memory, what each has observed, and the copies under way."""

    def __init__(self, threads: int, agents: int) -> None:
        none = (0,) * agents
        self.at = (0,) * threads
        self.pointers: tuple[tuple[int, int], ...] = ((0, 0),) * (POINTERS * threads)
        self.held = tuple(n + 1 for n in range(threads))
        self.blocks: dict[int, tuple[int, bool]] = {}
        """block -> (bytes, whether it was freed)"""
        self.words: dict[Word, int | None] = {}
        self.slots: tuple[tuple[int, int], ...] = ((0, 0),) * SLOTS
        self.clocks: dict[int, Clock] = {n: Clock(none, none, none) for n in range(threads)}
        self.known: dict[Word, frozenset[Access]] = {}
        self.under_way: dict[int, Any] = {}
        """agent -> what is left to do, for a copy that is issued: its step, and what a store has read"""
        self.done: dict[int, Clock] = {}
        """mbarrier -> what a wait for it acquires, once its load is over"""
        self.groups: tuple[tuple[int, ...], ...] = ((),) * threads
        """the stores of each thread"""

    def copied(self) -> _State:
        other = _State.__new__(_State)
        for name, value in self.__dict__.items():
            setattr(other, name, value.copy() if isinstance(value, dict) else value)
        return other

    def key(self) -> Any:
        return tuple(frozenset(v.items()) if isinstance(v, dict) else v for v in self.__dict__.values())


class Outlook(NamedTuple):
    """The possible results of all interleavings of a program."""

    faults: frozenset[str]
    warnings: frozenset[str]
    outcomes: frozenset[tuple[tuple[int, ...], int]]
    """numbers held in the end, and bytes that were not freed"""
    known: bool = True
    """false if there are too many interleavings"""


def explore(program: Program) -> Outlook:
    """Return the results of all interleavings."""
    places = [(n, at) for n, ops in enumerate(program.threads) for at, op in enumerate(ops) if op.kind in "LOA"]
    agents = {place: len(program.threads) + k for k, place in enumerate(places)}
    start = _State(len(program.threads), len(program.threads) + len(agents))
    seen, todo = {start.key()}, [start]
    found, outcomes = set[str](), set[tuple[tuple[int, ...], int]]()
    while todo:
        state = todo.pop()
        moves = _moves(program, state)
        if not moves:
            _end(program, state, found, outcomes)
        for moving in moves:
            after = state.copied()
            _Step(program, after, agents, found).go(moving)
            if (key := after.key()) not in seen:
                seen.add(key)
                todo.append(after)
        if len(seen) > MOST_STATES:
            return Outlook(frozenset(), frozenset(), frozenset(), known=False)
    warnings = {WAR, STORE_OUTLIVES, SAME}
    return Outlook(frozenset(found - warnings), frozenset(found & warnings), frozenset(outcomes))


def _end(program: Program, state: _State, found: set[str], outcomes: set[tuple[tuple[int, ...], int]]) -> None:
    if any(at < len(ops) for at, ops in zip(state.at, program.threads, strict=True)):
        found.add(DEADLOCK)
        return
    left = sum(-(-size // CELL) * CELL for size, freed in state.blocks.values() if not freed)
    outcomes.add((state.held, left))
    for ops in program.threads:
        for at, op in enumerate(ops):
            if op.kind == "L" and not any(o.kind == "Y" and o.v == op.barrier for own in program.threads for o in own):
                found.add(OUTLIVES)
            rest = ops[at + 1 :]
            later = lambda k, rest=rest: sum(o.kind in "OA" for o in rest[:k])  # noqa: E731
            if op.kind in "OA" and not any(o.kind in "QK" and later(k) >= o.v for k, o in enumerate(rest)):
                found.add(STORE_OUTLIVES)


def _moves(program: Program, state: _State) -> list[tuple[int, ...]]:
    """Return the agents that may take the next step.  If no other agent can observe the next step of one, return only
    that one."""
    following = [(n, ops[state.at[n]]) for n, ops in enumerate(program.threads) if state.at[n] < len(ops)]
    for n, op in following:
        if op.kind in "MF":
            return [(n,)]
    moves: list[tuple[int, ...]] = [(n,) for n, op in following if _may(state, n, op)]
    moves += [(agent,) for agent in state.under_way]
    met = tuple(n for n, op in following if op.kind == "B")
    return [*moves, met] if len(met) == len(following) > 0 else moves


def _may(state: _State, n: int, op: Op) -> bool:
    """Return whether a thread need not wait."""
    if op.kind in "QK":
        covered = state.groups[n][: len(state.groups[n]) - op.v]
        stages = [state.under_way[agent][0] for agent in covered if agent in state.under_way]
        return not stages or (op.kind == "Q" and "O" not in stages and "A" not in stages)
    return op.v in state.done if op.kind == "Y" else op.kind != "B"


class _Step:
    """One step of a thread, of a copy, or of all threads that meet."""

    def __init__(self, program: Program, state: _State, agents: dict[tuple[int, int], int], found: set[str]) -> None:
        self.program, self.state, self.agents, self.found = program, state, agents, found

    def go(self, moving: tuple[int, ...]) -> None:
        s = self.state
        if moving[0] >= len(self.program.threads):
            self._carry_on(moving[0])
            return
        ops = [self.program.threads[n][s.at[n]] for n in moving]
        place = moving[0], s.at[moving[0]]
        s.at = tuple(at + (n in moving) for n, at in enumerate(s.at))
        if ops[0].kind == "B":
            met = s.clocks[moving[0]]
            for n in moving:
                met = _join(met, s.clocks[n])
            s.clocks.update(dict.fromkeys(moving, met))
            return
        self._tick(moving[0])
        getattr(self, f"_{ops[0].kind}")(moving[0], ops[0], self.agents.get(place, -1))

    def _tick(self, n: int) -> None:
        clock = self.state.clocks[n]
        self.state.clocks[n] = clock._replace(h=tuple(time + (k == n) for k, time in enumerate(clock.h)))

    # -- plain operations ----------------------------------------------------------------------------------------------
    def _M(self, n: int, op: Op, _: int) -> None:
        s, count = self.state, len(self.program.threads)
        if op.n >= HUGE:
            self._point(n, op.v, (0, 0))
            return
        block = 1 + n + count * sum(1 for b in s.blocks if (b - 1) % count == n)
        s.blocks[block] = (op.n, False)
        self._point(n, op.v, (block, 0))

    def _point(self, n: int, v: int, to: tuple[int, int]) -> None:
        at = POINTERS * n + v
        self.state.pointers = (*self.state.pointers[:at], to, *self.state.pointers[at + 1 :])

    def _D(self, n: int, op: Op, _: int) -> None:
        s = self.state
        block, at = s.pointers[POINTERS * n + op.v]
        if not block:
            return
        size, freed = s.blocks[block]
        if at or freed:
            self.found.add(BOUNDS)
        if not at:
            self._touch(n, "w", [("block", block, word) for word in range(-(-size // 4))])
            s.blocks[block] = (size, True)

    def _find(self, n: int, op: Op, agent: int, size: int, align: int, kind: str) -> list[Word]:
        """Return the words of an access to a block; none for an invalid one."""
        block, at = self.state.pointers[POINTERS * n + op.v]
        have, freed = self.state.blocks.get(block, (0, True))
        first = at + op.n
        inside = first >= 0 and first + size <= have
        if first % align:
            self.found.add(ALIGN)
        if not inside or freed:
            self.found.add(BOUNDS)
        words: list[Word] = [("block", block, word) for word in range(first // 4, (first + size) // 4)]
        if inside and freed and not first % align:  # it may also race with the `free`
            self._check(agent, kind, words, fences=False)
        return words if inside and not freed and not first % align else []

    def _store(self, n: int, words: list[Word], value: int) -> None:
        self._write(n, words, [value + k for k in range(len(words))])

    def _write(self, agent: int, words: list[Word], values: list[int | None], *, bulk: bool = False) -> None:
        self._touch(agent, "w", words, values, bulk=bulk)
        self.state.words.update(zip(words, values, strict=True))

    def _load(self, n: int, words: list[Word]) -> None:
        s = self.state
        self._touch(n, "r", words)
        got = self._value(words[0]) if words else 0
        if got is UNDEFINED:
            self.found.add(UNSET)
        held = (3 * s.held[n] + (got or 0)) % (1 << 32)
        s.held = (*s.held[:n], held, *s.held[n + 1 :])

    def _taken(self, words: list[Word]) -> list[int | None]:
        """Return the values that a copy reads."""
        values = [self._value(word) for word in words]
        if UNDEFINED in values:
            self.found.add(UNSET)
        return values

    def _value(self, word: Word) -> int | None:
        return self.state.words.get(word, UNDEFINED)

    def _V(self, n: int, op: Op, _: int) -> None:
        self._store(n, self._find(n, op, n, CELL, CELL, "w"), op.value)

    def _W(self, n: int, op: Op, _: int) -> None:
        self._store(n, self._find(n, op, n, 4, 4, "w"), op.value)

    def _R(self, n: int, op: Op, _: int) -> None:
        self._load(n, self._find(n, op, n, 4, 4, "r"))

    def _X(self, n: int, op: Op, _: int) -> None:
        self._store(n, [("shared", 0, op.v + k) for k in range(CELL // 4)], op.value)

    def _E(self, n: int, op: Op, _: int) -> None:
        self._load(n, [("shared", 0, op.v)])

    def _P(self, n: int, op: Op, _: int) -> None:
        self._touch(n, "w", [("slot", 0, op.n)])
        pointer = self.state.pointers[POINTERS * n + op.v]
        self.state.slots = (*self.state.slots[: op.n], pointer, *self.state.slots[op.n + 1 :])

    def _G(self, n: int, op: Op, _: int) -> None:
        self._touch(n, "r", [("slot", 0, op.n)])
        self._point(n, op.v, self.state.slots[op.n])

    def _F(self, n: int, op: Op, _: int) -> None:
        h = self.state.clocks[n].h
        self.state.clocks[n] = Clock(h, h, h)

    # -- copies --------------------------------------------------------------------------------------------------------
    def _L(self, n: int, op: Op, agent: int) -> None:
        self.state.clocks[agent] = self.state.clocks[n]
        self.state.under_way[agent] = (op.kind, n, op, self._bulk_words(n, op, agent, "r"))

    def _O(self, n: int, op: Op, agent: int) -> None:
        s = self.state
        s.clocks[agent] = s.clocks[n]
        s.under_way[agent] = (op.kind, n, op, self._bulk_words(n, op, agent, "w" if op.kind == "O" else "a"))
        s.groups = (*s.groups[:n], (*s.groups[n], agent), *s.groups[n + 1 :])

    _A = _O

    def _bulk_words(self, n: int, op: Op, agent: int, kind: str) -> tuple[Word, ...]:
        return tuple(self._find(n, op, agent, op.size, CELL, kind))

    def _area(self, op: Op, words: tuple[Word, ...]) -> list[Word]:
        return [("shared", 0, AREA // 4 * op.area + k) for k in range(len(words))]

    def _carry_on(self, agent: int) -> None:
        """Make the next step of a copy."""
        s = self.state
        stage, n, op, rest = s.under_way.pop(agent)
        self._tick(agent)
        if stage == "L":
            issued = s.clocks[agent]
            self._touch(agent, "r", list(rest), bulk=True)
            self._write(agent, self._area(op, rest), self._taken(list(rest)), bulk=True)
            s.done[op.barrier] = _join(issued, self._own(agent))
        elif stage in "OA":
            area = self._area(op, rest)
            self._touch(agent, "r", area, bulk=True)
            s.under_way[agent] = ("write", n, op, (rest, tuple(self._taken(area))))
            return
        else:
            words, values = rest
            if op.kind == "O":
                self._write(agent, list(words), list(values), bulk=True)
                return
            self._touch(agent, "a", list(words), bulk=True)
            before = self._taken(list(words))
            total = (a if a is None or b is None else a + b for a, b in zip(values, before, strict=True))
            self.state.words.update(zip(words, total, strict=True))

    def _own(self, agent: int, time: int = 0) -> Clock:
        """Return the clock of what a copy itself has done."""
        h = self.state.clocks[agent].h
        only = tuple((time or known) if k == agent else 0 for k, known in enumerate(h))
        return Clock(only, only, only)

    def _Y(self, n: int, op: Op, _: int) -> None:
        self.state.clocks[n] = _join(self.state.clocks[n], self.state.done[op.v])

    def _K(self, n: int, op: Op, _: int) -> None:
        for agent in self.state.groups[n][: len(self.state.groups[n]) - op.v]:
            self.state.clocks[n] = _join(self.state.clocks[n], self._own(agent, time=int(op.kind == "Q")))

    _Q = _K

    # -- races and fences ----------------------------------------------------------------------------------------------
    def _check(
        self, agent: int, kind: str, words: list[Word], values: Sequence[int | None] = (),
        *, bulk: bool = False, fences: bool = True,
    ) -> None:  # fmt: skip
        clock = self.state.clocks[agent]
        for word, value in itertools.zip_longest(words, values):
            last = self.state.known.get(word, frozenset())
            for one in last:
                if one.agent == agent or {one.kind, kind} in _FREE_OF_RACES:
                    continue
                if one.time > clock.h[one.agent]:
                    same = one.kind == kind == "w" and value is not None and value == self._value(word)
                    self.found.add(SAME if same else RACE)
                elif fences and bulk and not one.bulk:
                    seen = clock.blocks if word[0] == "block" else clock.shared
                    if one.time > seen[one.agent]:
                        read_back = word[0] == "shared" and kind == "w" and any(a.kind == "r" for a in last)
                        self.found.add(WAR if one.kind == "r" or read_back else PROXY)

    def _touch(
        self, agent: int, kind: str, words: list[Word], values: Sequence[int | None] = (), *, bulk: bool = False
    ) -> None:
        """Record an access."""
        self._check(agent, kind, words, values, bulk=bulk)
        now = Access(agent, self.state.clocks[agent].h[agent], kind, bulk)
        for word in words:
            last = self.state.known.get(word, frozenset())
            kept = [] if kind == "w" else [a for a in last if a.agent != agent or a.kind != kind]
            self.state.known[word] = frozenset((*kept, now))


# -- as PTX ------------------------------------------------------------------------------------------------------------
_HEAD = f""".version 8.6
.target sm_90
.address_size 64
.extern .func (.param .b64 given) malloc (.param .b64 size);
.extern .func free (.param .b64 address);
.visible .entry k(.param .u64 slots, .param .u64 out)
{{
.reg .pred %p<3>; .reg .b32 %r<9>; .reg .b64 %d<9>, %q<{POINTERS}>;
.shared .align 16 .b8 area[{AREAS * AREA}]; .shared .align 8 .b64 bars[{BARRIERS}];
mov.u32 %r2, %tid.x; ld.param.u64 %d1, [slots]; ld.param.u64 %d3, [out];
mov.u64 %q0, 0; mov.u64 %q1, 0;
"""
_WHO = {
    "warps": "and.b32 %r3, %r2, 31; setp.ne.u32 %p0, %r3, 0; @%p0 bra done; shr.u32 %r3, %r2, 5;",
    "lanes": "mov.u32 %r3, %r2;",
}
_INIT = (
    "setp.ne.u32 %p0, %r3, 0; @%p0 bra begin;"
    + " ".join(f"mbarrier.init.shared.b64 [bars+{8 * k}], 1;" for k in range(BARRIERS))
    + " fence.mbarrier_init.release.cluster;\nbegin: barrier.sync 0;"
)
_END = "mul.wide.u32 %d4, %r3, 4; add.u64 %d3, %d3, %d4; st.global.u32 [%d3], %r4;\ndone: ret; }\n"
_HOLD = "mad.lo.u32 %r4, %r4, 3, %r5;"
_VALUES = "mov.u32 %r5, {value}; add.u32 %r6, %r5, 1; add.u32 %r7, %r5, 2; add.u32 %r8, %r5, 3; "
_BULK = "cp.async.bulk.global.shared::cta.bulk_group [%q{v}+{n}], [area+{start}], {size}; cp.async.bulk.commit_group;"
_TEXTS = {
    "M": "{{ .param .b64 a; .param .b64 b; st.param.b64 [a], {n}; call.uni (b), malloc, (a); "
    "ld.param.b64 %q{v}, [b]; }}",
    "D": "{{ .param .b64 a; st.param.b64 [a], %q{v}; call.uni free, (a); }}",
    "V": _VALUES + "st.v4.u32 [%q{v}+{n}], {{%r5, %r6, %r7, %r8}};",
    "W": "mov.u32 %r5, {value}; st.global.u32 [%q{v}+{n}], %r5;",
    "R": "ld.global.u32 %r5, [%q{v}+{n}];" + _HOLD,
    "X": _VALUES + "st.shared.v4.u32 [area+{at}], {{%r5, %r6, %r7, %r8}};",
    "E": "ld.shared.u32 %r5, [area+{at}];" + _HOLD,
    "P": "st.global.u64 [%d1+{slot}], %q{v};",
    "G": "ld.global.u64 %q{v}, [%d1+{slot}];",
    "L": "mbarrier.arrive.expect_tx.shared.b64 _, [bars+{bar}], {size}; "
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [area+{start}], [%q{v}+{n}], {size}, "
    "[bars+{bar}];",
    "O": _BULK,
    "A": _BULK.replace("cp.async.bulk.global.shared::cta.bulk_group", "cp.reduce.async.bulk.global.shared::cta"
                       ".bulk_group.add.u32"),
    "Y": "{label}: mbarrier.try_wait.parity.shared.b64 %p1, [bars+{wait}], 0; @!%p1 bra {label};",
    "Q": "cp.async.bulk.wait_group.read {v};",
    "K": "cp.async.bulk.wait_group {v};",
    "F": "fence.proxy.async;",
    "B": "barrier.sync 0;",
}  # fmt: skip


def write_ptx(program: Program) -> tuple[str, int]:
    """Return the program as PTX, and the threads of its CTA."""
    count = len(program.threads)
    lines = [_HEAD, _WHO[program.place], _INIT, "add.u32 %r4, %r3, 1;"]
    lines += [f"setp.eq.u32 %p0, %r3, {n}; @%p0 bra T{n};" for n in range(1, count)]
    for n, ops in enumerate(program.threads):
        lines.append(f"T{n}:")
        for at, op in enumerate(ops):
            numbers = {"at": 4 * op.v, "slot": 8 * op.n, "bar": 8 * op.barrier, "wait": 8 * op.v}
            text = _TEXTS[op.kind].format(**op._asdict(), **numbers, start=AREA * op.area, label=f"W{n}_{at}")
            lines.append(text)
        lines.append("bra end;")
    lines.append("end: " + _END)
    return "\n".join(lines), 32 * count if program.place == "warps" else count


# -- random ones -------------------------------------------------------------------------------------------------------
_Made = list[list[Op]]


def copy_program(source: random.Random) -> Program:
    """Return a typical use of bulk copies of blocks with up to two mistakes."""
    made = source.choice(_SHAPES)(source, source.choice((2, 2, 3)))
    for _ in range(source.choice((0, 0, 1, 1, 2))):
        made = break_program(source, made, _other, _drawn, once="F")
    return Program(source.choice(PLACES), tuple(map(tuple, _number(made))))


def _number(made: _Made) -> _Made:
    """Give each load an mbarrier of its own, and drop waits for loads that do not exist."""
    used, result = set[int](), list[list[Op]]()
    for ops in made:
        own = list[Op]()
        for op in ops:
            if op.kind == "L":
                free = [op.barrier, *range(BARRIERS)]
                op = op._replace(barrier=next((k for k in free if k not in used), -1))
                used.add(op.barrier)
            if op.barrier >= 0:
                own.append(op)
        result.append(own)
    return [[op for op in ops if op.kind != "Y" or op.v in used] for ops in result]


def _cells(source: random.Random) -> int:
    return CELL * source.choice((1, 1, 2))


def _filled(source: random.Random, v: int, size: int) -> list[Op]:
    return [Op("V", v, at, source.choice((1, 5, 9))) for at in range(0, size, CELL)]


def _area_filled(source: random.Random, area: int, size: int) -> list[Op]:
    return [Op("X", (AREA * area + at) // 4, value=source.choice((2, 6, 20))) for at in range(0, size, CELL)]


def _seen(source: random.Random, area: int, size: int) -> Op:
    return Op("E", AREA // 4 * area + source.randrange(size // 4))


def _read(source: random.Random, v: int, size: int) -> Op:
    return Op("R", v, 4 * source.randrange(size // 4))


def _own(source: random.Random, count: int) -> _Made:
    """Let each thread load, change, and store a block of its own."""
    made = []
    for n in range(count):
        size = _cells(source)
        ops = [Op("M", 0, source.choice((size,) * 9 + (HUGE,))), *_filled(source, 0, size), Op("F")]
        ops += [Op("L", 0, 0, size=size, area=n, barrier=n), Op("Y", n), _seen(source, n, size)]
        if source.random() < 0.5:
            ops += [Op("X", AREA // 4 * n, value=3), Op("F"), Op("O", 0, 0, size=size, area=n), Op("K", 0)]
            ops.append(_read(source, 0, size))
        made.append([*ops, *[Op("D", 0)] * (source.random() < 0.8)])
    return _thinned(source, made)


def _thinned(source: random.Random, made: _Made) -> _Made:
    """Leave one thread little to do, so that there are not too many interleavings."""
    spared = source.randrange(len(made))
    return [[Op("M", 1, CELL), Op("D", 1)] if n == spared else ops for n, ops in enumerate(made)]


def _stored(source: random.Random, count: int) -> _Made:
    """Let one thread fill a block by a bulk store, which others read after a barrier, then free it."""
    size = _cells(source)
    kind = source.choice("OOA")
    first = [Op("M", 0, size), *_filled(source, 0, size) * (kind == "A"), *_area_filled(source, 0, size), Op("F")]
    first += [Op(kind, 0, 0, size=size), Op("K", 0), Op("P", 0, 0), Op("B")]
    last = source.random() < 0.7
    others = [[Op("B"), Op("G", 0, 0), _read(source, 0, size), *[Op("B")] * last] for _ in range(count - 1)]
    return [[*first, *[Op("B"), Op("D", 0)] * last], *others]


def _handed(source: random.Random, count: int) -> _Made:
    """Let one thread write a block, which another one loads in bulk."""
    size, early = _cells(source), source.random() < 0.5
    first = [Op("M", 0, size), *_filled(source, 0, size), *[Op("F")] * early, Op("P", 0, 0), Op("B")]
    second = [Op("B"), *[Op("F")] * (not early), Op("G", 0, 0), Op("L", 0, 0, size=size, area=1, barrier=2), Op("Y", 2)]
    second.append(_seen(source, 1, size))
    rest = [[Op("B"), *([Op("Y", 2), _seen(source, 1, size)] if source.random() < 0.5 else [])]] * (count - 2)
    if source.random() < 0.6:
        return [[*first, Op("B"), Op("D", 0)], [*second, Op("B")], *([*own, Op("B")] for own in rest)]
    return [first, [*second, Op("D", 0)], *rest]


def _reused(source: random.Random, count: int) -> _Made:
    """Let a thread store an area twice: its bytes must have been read before they are overwritten."""
    size = CELL
    ops = [Op("M", 0, 2 * size), *_area_filled(source, 0, size), Op("F"), Op("O", 0, 0, size=size), Op("Q", 0)]
    ops += [*_area_filled(source, 0, size), Op("F"), Op("O", 0, size, size=size), Op("K", source.choice((0, 0, 0, 1)))]
    ops += [_read(source, 0, source.choice((1, 2)) * size), *[Op("K", 0), Op("D", 0)] * (source.random() < 0.6)]
    return [ops, *[[Op("M", 0, CELL), Op("D", 0)] for _ in range(count - 1)]]


def _summed(source: random.Random, count: int) -> _Made:
    """Let threads add areas to one block by reductions."""
    made = [[Op("M", 0, CELL), Op("V", 0, 0, 0), Op("F"), Op("P", 0, 0), Op("B")]]
    made += [[Op("B"), Op("G", 0, 0)] for _ in range(count - 1)]
    adds = [[*_area_filled(source, n, CELL), Op("F"), Op("A", 0, 0, size=CELL, area=n), Op("K", 0)] for n in range(2)]
    made = [[*own, *(adds[n] if n < 2 else []), Op("B")] for n, own in enumerate(made)]
    return [[*own, *([_read(source, 0, CELL), Op("D", 0)] if n == 1 else [])] for n, own in enumerate(made)]


def _ring(source: random.Random, count: int) -> _Made:
    """Let a thread load twice into one area, which another one reads between."""
    size = CELL
    first = [Op("M", 0, 2 * size), *_filled(source, 0, 2 * size), Op("F"), Op("L", 0, 0, size=size), Op("B")]
    first += [Op("F"), Op("L", 0, size, size=size, barrier=1), Op("Y", 1), Op("D", 0)]
    second = [Op("Y", 0), _seen(source, 0, size), Op("B"), Op("Y", 1), _seen(source, 0, size)]
    return [first, second, *[[Op("B")] for _ in range(count - 2)]]


def _random(source: random.Random, count: int) -> _Made:
    made = []
    for n in range(count):
        ops = [Op("M", 0, CELL * source.choice((1, 2)))] * (n < 2) + [Op("V", 0, 0, 4), Op("F")] * (n < 2)
        ops += [_drawn(source) for _ in range(source.randint(1, 3))]
        made.append([*ops, Op("B"), *[Op("G", 0, 0)] * (n == 2), _drawn(source)])
    return made


def _drawn(source: random.Random) -> Op:
    kind = source.choice("VWRRDPGXELLYOOAQKFF")
    v, size, area = source.choice((0, 0, 0, 1)), _cells(source), source.randrange(AREAS)
    at = source.choice((0, 0, 0, CELL, CELL, 4, -CELL))
    if kind in "LOA":
        return Op(kind, v, at, size=size, area=area, barrier=source.randrange(4) * (kind == "L"))
    if kind in "XE":
        return Op(kind, AREA // 4 * area + 4 * source.randrange(2), value=7 * (kind == "X"))
    if kind in "YQK":
        return Op(kind, source.choice((0, 0, 1)))
    if kind == "F":
        return Op(kind)
    return Op(kind, v, 0 if kind == "D" else source.randrange(SLOTS) if kind in "PG" else at, 3 * (kind in "VW"))


_SHAPES = (_own, _stored, _handed, _reused, _summed, _ring, _random)


def _other(source: random.Random, op: Op) -> Op:
    if op.kind == "M":
        return op._replace(n=source.choice((4, 12, 16, 24, 32, HUGE)))
    if op.kind in "LOA" and source.random() < 0.5:
        return op._replace(size=CELL * source.choice((1, 2, 3)))
    if op.kind in "LOA" and source.random() < 0.3:
        return op._replace(area=source.randrange(AREAS))
    if op.kind in "LOARVW":
        return op._replace(n=op.n + source.choice((-CELL, CELL, CELL, 4, 32)))
    if op.kind == "K":
        return op._replace(kind="Q")
    if op.kind in "YQ":
        return op._replace(v=1 - op.v if op.v < 2 else 0)
    return Op("F")


# -- judging -----------------------------------------------------------------------------------------------------------
class Judged(NamedTuple):
    """The results of the interleavings and of wsemu for a program."""

    program: Program
    outlook: Outlook
    verdicts: tuple[str, ...]
    """verdicts of the engines; none if there are too many interleavings"""
    codes: tuple[str, ...]
    complaint: str

    @property
    def can(self) -> str:
        """Describe the results of the interleavings."""
        return "can go wrong" if self.outlook.faults else "is right"

    def __str__(self) -> str:
        wrong = sorted((*self.outlook.faults, *self.outlook.warnings))
        return f"{self.complaint}: {self.program}: {wrong}, {self.verdicts} {self.codes}"


def judge_copies(program: Program, engines: tuple[Engine, ...] = ("vm",)) -> Judged:
    """Compare wsemu with the interleavings."""
    outlook = explore(program)
    if not outlook.known:
        return Judged(program, outlook, (), (), "")
    text, threads = write_ptx(program)
    kernel = wsemu.load_ptx(text)["k"]
    said, complaint = [], ""
    for engine in engines:
        held = np.zeros(len(program.threads), np.uint32)
        report = wsemu.check(kernel, 1, threads, (np.zeros(SLOTS, np.uint64), held), engine=engine)
        codes = tuple(sorted({finding.code for finding in report.findings}))
        said.append((report.verdict, codes))
        complaint = complaint or _complain(outlook, report, held.tolist())
    if len(set(said)) > 1:
        complaint = complaint or f"engines differ: {said}"
    return Judged(program, outlook, tuple(verdict for verdict, _ in said), said[0][1], complaint)


def _complain(outlook: Outlook, report: wsemu.Report, held: list[int]) -> str:
    warnings = {f.code for f in report.findings if f.severity == "warning"}
    errors = {CODES.get(f.code, f.code) for f in report.findings if f.severity == "error"}
    if report.verdict == "verified":
        left = next((note.split(" bytes")[0] for note in report.notes if "were not freed" in note), "0")
        came = (tuple(held), int(left.replace(",", "")))
        if outlook.faults or came not in outlook.outcomes:
            return "missed" if outlook.faults else f"values {came}"
        return "" if warnings == outlook.warnings else f"warnings {sorted(warnings)}"
    if report.verdict == "failed":
        if not outlook.faults:
            return "false alarm"
        # with other errors, wsemu cannot know that two stores write one value
        unknown = errors - outlook.faults - ({RACE} if SAME in outlook.warnings else set())
        return f"wrong reason {sorted(unknown)}" if unknown else ""
    return "" if outlook.faults else "undecided"


def smaller_copies(program: Program, fails: Callable[[Program], bool]) -> Program:
    """Return a part of the program that still fails."""

    def parts(made: tuple[tuple[Op, ...], ...]) -> Iterator[_Made]:
        for which in range(sum(op.kind == "B" for op in made[0])):
            yield [without_barrier(list(ops), which) for ops in made]
        for n, ops in enumerate(made):
            if len(made) > 2:
                yield [list(own) for k, own in enumerate(made) if k != n]
            for at, op in enumerate(ops):
                if op.kind != "B":
                    yield [[*own[:at], *own[at + 1 :]] if k == n else list(own) for k, own in enumerate(made)]

    while True:
        candidates = (program._replace(threads=tuple(map(tuple, _number(p)))) for p in parts(program.threads))
        less = next((p for p in candidates if fails(p)), None)
        if less is None:
            return program
        program = less
