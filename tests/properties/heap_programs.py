"""Random programs of threads that share memory of the device's heap, every interleaving of them, and wsemu's verdict.

A program has two or three threads, of warps, CTAs or one warp.  Each has the pointers p0 to p2, null at first, a ticket
t, and a number that it holds; in a line, as `warps: M0 8; W0+4=2; P0 0 release | G0 0 acquire; ?0 R0+4; ?0 D0`:

    M0 8             p0 = malloc(8)
    N1 0+4           p1 = p0 + 4
    W0+4=2           a store of 2 to the word at p0 + 4; V0+8=2 one of two words
    R0+4, U0+4, A0+4 a load, one of two words, a relaxed atomic addition of 1
    D0               free(p0)
    P0 2 release     p0 goes to slot 2, by a store: weak, relaxed, release
    G0 2 acquire     p0 comes from slot 2, by a load: weak, relaxed, acquire
    S0+4=1 release   a strong store of 1 to the word at p0 + 4: relaxed, release
    L0+4 acquire     t = a strong load: relaxed, acquire
    C acq_rel        t = an atomic addition of 1 to the counter: relaxed, acquire, release, acq_rel
    F                a fence, acq_rel at the scope of the GPU
    B                a barrier of all threads
    ?0, !0, ?t1      before an operation: only where p0 is no null, where it is null, where t is 1

In a recursive program each thread makes its operations in a function that calls itself, some on the way down and the
others on the way back; what it holds lies in local memory of the kernel meanwhile.

All interleavings are visited, with vector clocks: it is wrong to race (`free` writes to the whole block), to access
what is in no block or in one that was freed, to free that, to read what nobody wrote, unless it is a ticket that
decides nothing, and to access two words at an address of one.  This file asks wsemu for its verdict, and uses nothing
else of it.
"""

from __future__ import annotations

import random
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import wsemu
from tests.properties.mistakes import break_program, without_barrier

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

WEAK, RELAXED, ACQUIRE, RELEASE, ACQ_REL = "weak", "relaxed", "acquire", "release", "acq_rel"
RACE, BOUNDS, UNSET, ALIGN = "race", "out-of-bounds", "uninitialized-read", "misaligned"
CODES = {"intra-warp-race": RACE, "missing-fence": RACE}
"""codes of findings that report one of those faults under another name"""
PLACES = ("warps", "ctas", "lanes")
SLOTS, POINTERS = 3, 3
HUGE = 1 << 24
"""bytes that no heap has, so that `malloc` returns null"""
ANYTHING, NO_TICKET = -3, -4
"""the ticket that a load outside of a block returns, which may be anything; and a ticket that no guard names"""
UNDEFINED = -2
"""the ticket of a thread that has loaded an uninitialized word: wrong if it decides something"""
_DOUBT = "an uninitialized ticket"
MOST_STATES = 20_000
_ROUNDED = 16
"""unit in which bytes of blocks that are not freed are counted"""


class Op(NamedTuple):
    kind: str
    v: int = 0
    """the pointer"""
    n: int = 0
    """bytes of a block; for an address, the distance from the pointer"""
    value: int = 0
    """value of a store; the slot; the other pointer"""
    order: str = WEAK
    guard: str = ""

    def __str__(self) -> str:
        kind, v, n, value, order, guard = self
        text = {
            "M": f"M{v} {n}", "N": f"N{v} {value}{n:+}", "D": f"D{v}", "P": f"P{v} {value} {order}", "F": "F", "B": "B",
            "G": f"G{v} {value} {order}", "C": f"C {order}", "W": f"W{v}{n:+}={value}", "V": f"V{v}{n:+}={value}",
            "S": f"S{v}{n:+}={value} {order}", "L": f"L{v}{n:+} {order}",
        }.get(kind, f"{kind}{v}{n:+}")  # fmt: skip
        return f"{guard} {text}" if guard else text


class Program(NamedTuple):
    place: str
    threads: tuple[tuple[Op, ...], ...]
    depth: int = 0
    """depth of recursive calls of the function; 0: there is no function"""

    def __str__(self) -> str:
        head = f"{self.place} {self.depth} deep" if self.depth else self.place
        return f"{head}: " + " | ".join("; ".join(map(str, ops)) for ops in self.threads)


_FORMS = (
    re.compile(r"(?P<kind>[MD])(?P<v>\d) ?(?P<n>\d+)?"),
    re.compile(r"(?P<kind>N)(?P<v>\d) (?P<value>\d)(?P<n>[+-]\d+)"),
    re.compile(r"(?P<kind>[PG])(?P<v>\d) (?P<value>\d) (?P<order>\w+)"),
    re.compile(r"(?P<kind>[RUAWVSL])(?P<v>\d)(?P<n>[+-]\d+)(?:=(?P<value>\d+))?(?: (?P<order>\w+))?"),
    re.compile(r"(?P<kind>C) (?P<order>\w+)"),
    re.compile(r"(?P<kind>[FB])"),
)


def parse(line: str) -> Program:
    """Return the program of a line."""
    head, _, threads = line.partition(": ")
    place, *depth = head.split()
    made = tuple(tuple(map(_parsed, ops.split(";"))) for ops in threads.split("|"))
    return Program(place, made, int(depth[0]) if depth else 0)


def _parsed(text: str) -> Op:
    *guard, text = re.fullmatch(r"\s*(?:([?!]\w+) )?(.*?)\s*", text).groups()  # type: ignore[union-attr]
    found = next(match for form in _FORMS if (match := form.fullmatch(text)))
    given: dict[str, Any] = {name: value for name, value in found.groupdict().items() if value is not None}
    given.update((name, int(given[name])) for name in ("v", "n", "value") if name in given)
    return Op(**given, guard=guard[0] or "")


# -- every interleaving -----------------------------------------------------------------------------------------------
Write = tuple[Any, int, int]
"""location, thread and time of a strong write"""


class Clock(NamedTuple):
    """What a thread has observed."""

    times: tuple[int, ...]
    """up to when, of each thread"""
    observed: frozenset[Write] = frozenset()
    """the strong writes that this thread, or threads that it has observed, have read (PTX ISA, "Causality order")"""

    def knows(self, write: Write) -> bool:
        return write[2] <= self.times[write[1]] or write in self.observed


Pointer = tuple[int, int]
"""(number of the block, byte in it); blocks are numbered from 1, and 0 stands for no block, so that (0, 0) is null"""
_KINDS = ("weak write", "strong write", "weak read", "strong read")
_CONFLICTS = {0: (0, 1, 2, 3), 1: (0, 2), 2: (0, 1), 3: (0,)}
"""accesses that race with each kind of access if nothing orders them"""


class _State:
    """The positions of the threads, what they hold, memory, and what each has observed."""

    def __init__(self, threads: int) -> None:
        none = Clock((0,) * threads)
        self.at = [0] * threads
        self.pointers = [[(0, 0)] * POINTERS for _ in range(threads)]
        self.tickets, self.held = [-1] * threads, [n + 1 for n in range(threads)]
        self.blocks: dict[int, tuple[int, bool]] = {}
        """block -> (bytes, whether it was freed)"""
        self.words: dict[tuple[int, int], int] = {}
        self.slots: list[Pointer] = [(0, 0)] * SLOTS
        self.count = 0
        self.clocks: list[Clock] = [none] * threads
        self.known: dict[Any, tuple[frozenset[Write], ...]] = {}
        """location -> for each kind of access, those that may race with later ones"""
        self.chains: dict[Any, frozenset[Write]] = {}
        """location -> the strong writes that a thread that reads it now observes"""
        self.released: dict[Any, Clock] = {}
        """location -> the clock that a strong read of it synchronizes with"""
        self.releases: dict[tuple[int, Any], Clock] = {}
        """(thread, location) -> the clock that its strong stores there release"""
        self.fenced: list[Clock | None] = [None] * threads
        """for each thread, the clock that its strong stores release anywhere, because of a fence before them"""
        self.observed: dict[tuple[int, Any], Clock] = {}
        """(thread, location) -> the clock of what it has read there, which an acquire would join"""

    def copied(self) -> _State:
        other = _State.__new__(_State)
        for name, value in self.__dict__.items():
            setattr(other, name, value.copy() if isinstance(value, (list, dict)) else value)
        other.pointers = [list(own) for own in self.pointers]
        return other

    def key(self) -> Any:
        return tuple(_frozen(value) for value in self.__dict__.values())


def _frozen(value: Any) -> Any:
    if isinstance(value, dict):
        return frozenset(value.items())
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def _joined(one: Clock, *others: Clock) -> Clock:
    times = tuple(map(max, zip(one.times, *(other.times for other in others), strict=True)))
    return Clock(times, one.observed.union(*(other.observed for other in others)))


class Outlook(NamedTuple):
    """The possible results of all interleavings of a program."""

    faults: frozenset[str]
    outcomes: frozenset[tuple[tuple[int, ...], int]]
    """numbers held in the end, and bytes that were not freed"""
    known: bool = True
    """else they are too many"""
    doubtful: bool = False
    """whether some ticket is uninitialized: a launch that fails for another reason does not show that it decides
    nothing"""


def explore(program: Program) -> Outlook:
    """Return the results of all interleavings."""
    start = _State(len(program.threads))
    seen, todo = {start.key()}, [start]
    faults, outcomes = set[str](), set[tuple[tuple[int, ...], int]]()
    while todo:
        state = todo.pop()
        moves = _moves(program, state)
        if not moves:
            left = sum(-(-size // _ROUNDED) * _ROUNDED for size, freed in state.blocks.values() if not freed)
            outcomes.add((tuple(state.held), left))
        for after in (after for moving in moves for after in _made(program, state, moving, faults)):
            if (key := after.key()) not in seen:
                seen.add(key)
                todo.append(after)
        if len(seen) > MOST_STATES:
            return Outlook(frozenset(), frozenset(), known=False)
    return Outlook(frozenset(faults - {_DOUBT}), frozenset(outcomes), doubtful=_DOUBT in faults)


def _made(program: Program, state: _State, moving: tuple[int, ...], faults: set[str]) -> Iterator[_State]:
    """Yield each state that a step leads to."""
    for before in _decided(program, state, moving, faults):
        after = before.copied()
        _Step(program, after, faults).go(moving)
        yield from _guessed(program, after)


def _decided(program: Program, state: _State, moving: tuple[int, ...], faults: set[str]) -> Iterator[_State]:
    """Yield the state, or one for each path of a thread that an uninitialized ticket decides."""
    n = moving[0]
    guard = program.threads[n][state.at[n]].guard
    if not (guard.startswith("?t") and state.tickets[n] == UNDEFINED):
        yield state
        return
    faults.add(UNSET)
    one = state.copied()
    one.tickets[n] = ANYTHING
    yield from _guessed(program, one)


def _guessed(program: Program, state: _State) -> Iterator[_State]:
    """Yield the state, or one for each ticket that leads to different behavior, if a load outside of a block returns
    anything."""
    n = next((n for n, ticket in enumerate(state.tickets) if ticket == ANYTHING), -1)
    if n < 0:
        yield state
        return
    for ticket in {NO_TICKET, *(int(op.guard[2:]) for op in program.threads[n] if op.guard.startswith("?t"))}:
        one = state.copied()
        one.tickets[n] = ticket
        yield one


def _moves(program: Program, state: _State) -> list[tuple[int, ...]]:
    """Return the threads that may run next; if no other thread sees the next step of some, only the first of these."""
    following = [(n, ops[state.at[n]]) for n, ops in enumerate(program.threads) if state.at[n] < len(ops)]
    for n, op in following:
        if op.kind in "MNF" or not _holds(state, n, op.guard):
            return [(n,)]
    moves: list[tuple[int, ...]] = [(n,) for n, op in following if op.kind != "B"]
    return moves or ([tuple(n for n, _ in following)] if following else [])


def _holds(state: _State, n: int, guard: str) -> bool:
    if not guard:
        return True
    if guard[1] == "t":
        return state.tickets[n] == int(guard[2:])
    return (state.pointers[n][int(guard[1:])] == (0, 0)) == (guard[0] == "!")


class _Step:
    """One step of a thread, or of all threads that meet."""

    def __init__(self, program: Program, state: _State, faults: set[str]) -> None:
        self.program, self.state, self.faults = program, state, faults

    def go(self, moving: tuple[int, ...]) -> None:
        s = self.state
        ops = [(n, self.program.threads[n][s.at[n]]) for n in moving]
        for n in moving:
            s.at[n] += 1
        if ops[0][1].kind == "B":
            met = _joined(*(s.clocks[n] for n in moving))
            for n in moving:
                s.clocks[n] = met
            return
        ((n, op),) = ops
        if _holds(s, n, op.guard):
            times, observed = s.clocks[n]
            s.clocks[n] = Clock(tuple(c + (k == n) for k, c in enumerate(times)), observed)
            getattr(self, "_" + {"R": "load", "U": "load", "W": "store", "V": "store"}.get(op.kind, op.kind))(n, op)

    def _M(self, n: int, op: Op) -> None:
        s = self.state
        if op.n >= HUGE:
            s.pointers[n][op.v] = (0, 0)
            return
        block = 1 + n + len(self.program.threads) * sum(1 for b in s.blocks if (b - 1) % len(self.program.threads) == n)
        s.blocks[block] = (op.n, False)
        s.pointers[n][op.v] = (block, 0)

    def _N(self, n: int, op: Op) -> None:
        block, at = self.state.pointers[n][op.value]
        self.state.pointers[n][op.v] = (block, at + op.n)

    def _D(self, n: int, op: Op) -> None:
        s = self.state
        block, at = s.pointers[n][op.v]
        if (block, at) == (0, 0):
            return
        size, freed = s.blocks.get(block, (0, True))
        if not block or at or freed:
            self.faults.add(BOUNDS)
        if block and not at:
            self._touch(n, 0, *((block, word) for word in range(0, size, 4)))
            s.blocks[block] = (size, True)

    def _places(self, n: int, op: Op, words: int) -> list[tuple[int, int]]:
        """Return the words of an access; none for an invalid one."""
        block, at = self.state.pointers[n][op.v]
        size, freed = self.state.blocks.get(block, (0, True))
        first = at + op.n
        if first % (4 * words):
            self.faults.add(ALIGN)
        inside = first >= 0 and first + 4 * words <= size
        if not inside or freed:
            self.faults.add(BOUNDS)
        places = [(block, first + 4 * k) for k in range(words)]
        if inside and freed:  # it may have been too early for that
            self._check(n, 0 if op.kind in "WV" else 1 if op.kind in "AS" else 3 if op.kind == "L" else 2, *places)
        return places if inside and not freed and not first % (4 * words) else []

    def _load(self, n: int, op: Op) -> None:
        s = self.state
        places = self._places(n, op, 1 + (op.kind == "U"))
        self._touch(n, 2, *places)
        got = [self._read(place) for place in places]
        for k in range(1 + (op.kind == "U")):
            s.held[n] = (3 * s.held[n] + (got[k] if got else 0)) % (1 << 32)

    def _store(self, n: int, op: Op) -> None:
        places = self._places(n, op, 1 + (op.kind == "V"))
        self._touch(n, 0, *places)
        self.state.words.update((place, op.value + k) for k, place in enumerate(places))

    def _A(self, n: int, op: Op) -> None:
        for place in self._places(n, op, 1):
            self._both(n, place, RELAXED)
            self.state.words[place] = self._read(place) + 1

    def _read(self, place: tuple[int, int]) -> int:
        if place not in self.state.words:
            self.faults.add(UNSET)
        return self.state.words.get(place, 0)

    def _P(self, n: int, op: Op) -> None:
        self._put(n, ("slot", op.value), op.order)
        self.state.slots[op.value] = self.state.pointers[n][op.v]

    def _G(self, n: int, op: Op) -> None:
        self._get(n, ("slot", op.value), op.order)
        self.state.pointers[n][op.v] = self.state.slots[op.value]

    def _S(self, n: int, op: Op) -> None:
        for place in self._places(n, op, 1):
            self._put(n, place, op.order)
            self.state.words[place] = op.value

    def _L(self, n: int, op: Op) -> None:
        self.state.tickets[n] = ANYTHING
        for place in self._places(n, op, 1):
            self._get(n, place, op.order)
            self.state.tickets[n] = self.state.words.get(place, UNDEFINED)
            self.faults.update([_DOUBT] if place not in self.state.words else ())

    def _C(self, n: int, op: Op) -> None:
        self._both(n, "count", op.order)
        self.state.tickets[n], self.state.count = self.state.count, self.state.count + 1

    def _F(self, n: int, op: Op) -> None:
        s = self.state
        s.clocks[n] = _joined(s.clocks[n], *(clock for (own, _), clock in s.observed.items() if own == n))
        s.fenced[n] = s.clocks[n]

    # -- strong accesses ----------------------------------------------------------------------------------------------
    def _put(self, n: int, place: Any, order: str) -> None:
        """Perform a store of a pointer or a flag, weak or strong."""
        self._touch(n, int(order != WEAK), place)
        if order != WEAK:
            self._release(n, place, order)

    def _get(self, n: int, place: Any, order: str) -> None:
        if order != WEAK:
            self._sees(n, self.state.chains.get(place, frozenset()))
            self._observe(n, place, order)
        self._touch(n, 2 + (order != WEAK), place)

    def _both(self, n: int, place: Any, order: str) -> None:
        """Perform an atomic: a release that it reads passes on to readers of its result."""
        s = self.state
        before, released = s.chains.get(place, frozenset()), s.released.get(place)
        self._observe(n, place, order)
        self._touch(n, 1, place)
        s.chains[place] |= before
        self._sees(n, before)
        self._release(n, place, order, *([released] if released else []))

    def _release(self, n: int, place: Any, order: str, *before: Clock) -> None:
        """Record the clock that readers of this strong write synchronize with: the thread's releases there, its fences,
        and the clocks of writes that an atomic has read."""
        s = self.state
        if order in (RELEASE, ACQ_REL):
            s.releases[n, place] = s.clocks[n]
        own = s.releases.get((n, place)), s.fenced[n]
        given = [*before, *(clock for clock in own if clock is not None)]
        if given:
            s.released[place] = _joined(*given)

    def _observe(self, n: int, place: Any, order: str) -> None:
        """Acquire the clock that a strong read synchronizes with, now or by a later fence."""
        s = self.state
        if place in s.released:
            s.observed[n, place] = _joined(s.released[place], s.observed.get((n, place), s.released[place]))
        if order in (ACQUIRE, ACQ_REL) and (n, place) in s.observed:
            s.clocks[n] = _joined(s.clocks[n], s.observed[n, place])

    def _sees(self, n: int, writes: frozenset[Write]) -> None:
        clock = self.state.clocks[n]
        self.state.clocks[n] = clock._replace(observed=clock.observed | writes)

    def _check(self, n: int, kind: int, *places: Any) -> None:
        clock = self.state.clocks[n]
        for place in places:
            last = self.state.known.get(place, ())
            for other in _CONFLICTS[kind] if last else ():
                if any(write[1] != n and not clock.knows(write) for write in last[other]):
                    self.faults.add(RACE)

    def _touch(self, n: int, kind: int, *places: Any) -> None:
        """Record an access, which may race; an atomic counts as a strong write: what its read races with, it races
        with."""
        self._check(n, kind, *places)
        s = self.state
        for place in places:
            now = place, n, s.clocks[n].times[n]
            last = list(s.known.get(place, (frozenset(),) * len(_KINDS)))
            kept = last[kind] if kind == 1 else {write for write in last[kind] if write[1] != n}
            last[kind] = frozenset((*kept, now))
            s.known[place] = tuple(last)
            if kind < 2:
                s.chains[place] = frozenset((now,) if kind else ())
                s.released.pop(place, None)


# -- as PTX -----------------------------------------------------------------------------------------------------------
_HEAD = """.version 8.0
.target sm_90
.address_size 64
.extern .func (.param .b64 given) malloc (.param .b64 size);
.extern .func free (.param .b64 address);
.visible .entry k(.param .u64 slots, .param .u64 count, .param .u64 out)
{
.reg .pred %p<3>; .reg .b32 %r<9>, %t; .reg .b64 %d<9>, %q<3>;
mov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x;
ld.param.u64 %d1, [slots]; ld.param.u64 %d2, [count]; ld.param.u64 %d3, [out];
mov.u64 %q0, 0; mov.u64 %q1, 0; mov.u64 %q2, 0; mov.u32 %t, -1;
"""
_WHO = {
    "warps": "and.b32 %r3, %r2, 31; setp.ne.u32 %p0, %r3, 0; @%p0 bra done; shr.u32 %r3, %r2, 5;",
    "ctas": "setp.ne.u32 %p0, %r2, 0; @%p0 bra done; mov.u32 %r3, %r1;",
    "lanes": "mov.u32 %r3, %r2;",
}
_END = "mul.wide.u32 %d4, %r3, 4; add.u64 %d3, %d3, %d4; st.global.u32 [%d3], %r4;\ndone: ret; }\n"
_MALLOC = (
    "{{ .param .b64 a; .param .b64 b; st.param.b64 [a], {n}; call.uni (b), malloc, (a); ld.param.b64 %q{v}, [b]; }}"
)
_FREE = "{{ .param .b64 a; st.param.b64 [a], %q{v}; call.uni free, (a); }}"
_HOLD = "mad.lo.u32 %r4, %r4, 3, {};"
_TEXTS = {
    "M": _MALLOC,
    "N": "add.s64 %q{v}, %q{value}, {n};",
    "D": _FREE,
    "W": "mov.u32 %r5, {value}; st{space}.u32 [%q{v}+{n}], %r5;",
    "V": "mov.u32 %r5, {value}; add.u32 %r6, %r5, 1; st{space}.v2.u32 [%q{v}+{n}], {{%r5, %r6}};",
    "R": "ld{space}.u32 %r5, [%q{v}+{n}];" + _HOLD.format("%r5"),
    "U": "ld{space}.v2.u32 {{%r5, %r6}}, [%q{v}+{n}];" + _HOLD.format("%r5") + _HOLD.format("%r6"),
    "A": "red.relaxed.gpu{space}.add.u32 [%q{v}+{n}], 1;",
    "P": "st{strong}.global.u64 [%d1+{slot}], %q{v};",
    "G": "ld{strong}.global.u64 %q{v}, [%d1+{slot}];",
    "S": "mov.u32 %r5, {value}; st{strong}{space}.u32 [%q{v}+{n}], %r5;",
    "L": "ld{strong}{space}.u32 %t, [%q{v}+{n}];",
    "C": "atom.{order}.gpu.global.add.u32 %t, [%d2], 1;",
    "F": "fence.acq_rel.gpu;",
    "B": "barrier.sync 0;",
}


def ptx(program: Program, *, generic: bool = False) -> tuple[str, int, int]:
    """Return (source, CTAs, threads of a CTA); `generic` selects how addresses of blocks are written."""
    count = len(program.threads)
    shape = {"warps": (1, 32 * count), "ctas": (count, 32), "lanes": (1, count)}[program.place]
    if program.depth:
        return _write_recursive(program, "" if generic else ".global"), *shape
    lines = [_HEAD, _WHO[program.place], "add.u32 %r4, %r3, 1;"]
    lines += [f"setp.eq.u32 %p0, %r3, {n}; @%p0 bra T{n};" for n in range(1, count)]
    for n, ops in enumerate(program.threads):
        lines.append(f"T{n}:")
        for at, op in enumerate(ops):
            lines += _guarded(op, f"S{n}_{at}", "" if generic else ".global")
        lines.append("bra end;")
    lines.append("end: " + _END)
    return "\n".join(lines), *shape


_FUNCTION = """.func f(.param .b64 held, .param .b32 depth, .param .b32 thread)
{
.reg .pred %p<3>; .reg .b32 %r<9>, %t; .reg .b64 %d<9>, %q<3>;
ld.param.u64 %d8, [held]; ld.param.u32 %r8, [depth]; ld.param.u32 %r3, [thread];
"""
_CALL = (
    "{{ .param .b64 a; .param .b32 b; .param .b32 c; st.param.b64 [a], {}; st.param.b32 [b], {}; "
    "st.param.b32 [c], %r3; call f, (a, b, c); }}"
)
_HELD = (("u64", "%q0"), ("u64", "%q1"), ("u64", "%q2"), ("u64", "%d1"), ("u64", "%d2"), ("u32", "%t"), ("u32", "%r4"))
_BYTES = 8 * len(_HELD)


def _move_held(how: str) -> str:
    """Return instructions that load or store everything that a thread holds, through a generic address of local
    memory."""
    forms = {"ld": "ld.{0} {1}, [%d8+{2}];", "st": "st.{0} [%d8+{2}], {1};"}
    return " ".join(forms[how].format(type_, name, 8 * n) for n, (type_, name) in enumerate(_HELD))


def _write_recursive(program: Program, space: str) -> str:
    """Return the program as PTX whose threads make their operations in a function that calls itself."""
    parts, deepest = _cut(program), program.depth
    lines = [_FUNCTION, _move_held("ld")]
    for number, part in enumerate(parts):
        level = min(number, 2 * deepest - number)
        for n, own in enumerate(part):
            lines.append(f"setp.ne.u32 %p0, %r3, {n}; setp.ne.or.u32 %p0, %r8, {level}, %p0;")
            lines.append(f"@%p0 bra P{number}_{n};")
            for at, op in enumerate(own):
                lines += _guarded(op, f"S{number}_{n}_{at}", space)
            lines.append(f"P{number}_{n}:")
        if number == deepest:
            lines.append(f"{_move_held('st')} setp.ge.u32 %p0, %r8, {deepest}; @%p0 bra left; add.u32 %r7, %r8, 1;")
            lines += [_CALL.format("%d8", "%r7"), _move_held("ld")]
    lines += [_move_held("st"), "left: ret;\n}"]
    head, entry = _HEAD.split(".visible .entry")
    kernel = [f".visible .entry{entry}", f".local .align 8 .b8 held[{_BYTES}];", _WHO[program.place]]
    kernel += ["add.u32 %r4, %r3, 1; mov.u64 %d8, held; cvta.local.u64 %d8, %d8;", _move_held("st")]
    kernel += ["mov.u32 %r7, 0;", _CALL.format("%d8", "%r7"), "ld.u32 %r4, [%d8+48];"]
    return "\n".join([head, *lines, *kernel, _END])


def _cut(program: Program) -> list[list[tuple[Op, ...]]]:
    """Return the operations of each thread in parts: all have met at as many barriers before a part."""
    draw, rest = random.Random(str(program)), [list(ops) for ops in program.threads]
    most = max(sum(op.kind == "B" for op in ops) for ops in rest)
    barriers = sorted(draw.randint(0, most) for _ in range(2 * program.depth))
    made: list[list[tuple[Op, ...]]] = []
    done = [0] * len(rest)
    for number in barriers:
        ends = []
        for n, ops in enumerate(rest):
            places = [at for at in range(done[n], len(ops) + 1) if sum(op.kind == "B" for op in ops[:at]) == number]
            ends.append(draw.choice(places) if places else max(done[n], len(ops) * (number >= most)))
        made.append([tuple(ops[done[n] : ends[n]]) for n, ops in enumerate(rest)])
        done = ends
    return [*made, [tuple(ops[done[n] :]) for n, ops in enumerate(rest)]]


def _guarded(op: Op, label: str, space: str) -> Iterator[str]:
    if op.guard:
        what, wanted = ("%t", int(op.guard[2:])) if op.guard[1] == "t" else (f"%q{op.guard[1:]}", 0)
        relation = ("ne.u32" if what == "%t" else "eq.u64") if op.guard[0] == "?" else "ne.u64"
        yield f"setp.{relation} %p1, {what}, {wanted}; @%p1 bra {label};"
    strong = "" if op.order == WEAK else f".{op.order}.gpu"
    yield _TEXTS[op.kind].format(**op._asdict(), space=space, strong=strong, slot=8 * op.value)
    if op.guard:
        yield f"{label}:"


# -- random ones ------------------------------------------------------------------------------------------------------
_Made = list[list[Op]]


def heap_program(source: random.Random) -> Program:
    """Return a typical use of the heap with up to two mistakes; one program in four is drawn at random."""
    place = source.choice(PLACES)
    count = source.choice((2, 2, 3))
    shapes = _SHAPES if place != "ctas" else _ALONE
    made = source.choice(shapes)(source, count)
    for _ in range(source.choice((0, 0, 1, 1, 2))):
        made = break_program(source, made, _other, _drawn)
    if place == "ctas":
        made = [[op for op in ops if op.kind != "B"] for ops in made]
    return Program(place, tuple(map(tuple, made)))


def _size(source: random.Random) -> int:
    return source.choice((4, 8, 8, 12, 16, 20, 24))


def _within(source: random.Random, size: int, step: int = 4) -> int:
    return step * source.randrange(max(size // step, 1))


def _use(source: random.Random, v: int, size: int, guard: str = "") -> list[Op]:
    """Write and read a word, or add to it."""
    at = _within(source, size)
    made = [Op("W", v, at, source.choice((1, 2, 3)), guard=guard)]
    if source.random() < 0.2 and size >= 8:
        at = _within(source, size, 8)
        made = [Op("V", v, at, 2, guard=guard)]
    made.append(
        Op(source.choice("RRAU" if size >= 8 and not at % 8 and made[0].kind == "V" else "RRA"), v, at, guard=guard)
    )
    return made


def _own(source: random.Random, count: int) -> _Made:
    """Let each thread have blocks of its own."""
    made: _Made = []
    for _ in range(count):
        size = _size(source)
        guard = source.choice(("", "", "?0"))
        ops = [Op("M", 0, source.choice((size,) * 6 + (HUGE,))), *_use(source, 0, size, guard)]
        if source.random() < 0.3:
            ops += [Op("N", 1, source.choice((0, 4, 4)), 0), Op("R", 1, 0, guard=guard)]
        ops += [Op("D", 0)] * (source.random() < 0.8)
        if source.random() < 0.3:
            ops += [Op("M", 0, size), *_use(source, 0, size)]
        made.append(ops)
    return made


def _handed(source: random.Random, count: int) -> _Made:
    """Let one thread pass a block to the others, after barriers."""
    size = _size(source)
    at = _within(source, size)
    first = [Op("M", 0, size), Op("W", 0, at, 2), Op("P", 0, 0), Op("B")]
    others = [[Op("B"), Op("G", 0, 0), Op("R", 0, at)] for _ in range(count - 1)]
    if source.random() < 0.5:
        first += [Op("B"), Op("D", 0)]
        others = [[*own, Op("B")] for own in others]
    elif source.random() < 0.7:
        others[0].append(Op("D", 0))
        if count > 2:
            others[0].insert(-1, Op("B"))
            others[1].append(Op("B"))
            first.append(Op("B"))
    return [first, *others]


def _shared(source: random.Random, count: int) -> _Made:
    """Let each thread have its part of a block of one thread, or add to one word; the last thread frees it."""
    adds = source.random() < 0.4
    starts = [Op("W", 0, 4 * n, 0) for n in range(1 if adds else 0)]
    use = lambda n: [Op("A", 0, 0)] if adds else [Op("W", 0, 4 * n, n + 1), Op("R", 0, 4 * n)][: source.choice((1, 2))]  # noqa: E731
    order = source.choice((ACQ_REL, ACQ_REL, ACQ_REL, RELAXED))
    last = (
        [Op("C", order=order)]
        if order == ACQ_REL or source.random() < 0.3
        else [Op("F"), Op("C", order=order), Op("F")]
    )
    last += [Op("D", 0, guard=f"?t{count - 1}")]
    made = [[Op("M", 0, 4 * count), *starts, Op("P", 0, 0), Op("B")]] + [
        [Op("B"), Op("G", 0, 0)] for _ in range(count - 1)
    ]
    return [[*own, *use(n), *last] for n, own in enumerate(made)]


def _flagged(source: random.Random, count: int) -> _Made:
    """Let one thread pass a block to another one, by a strong store."""
    size = _size(source)
    at = _within(source, size)
    fence = source.random() < 0.3
    first = [
        Op("M", 0, size),
        Op("W", 0, at, 2),
        *[Op("F")] * fence,
        Op("P", 0, 0, 1, RELAXED if fence else RELEASE),
    ]
    second = [
        Op("G", 0, 0, 1, RELAXED if fence else ACQUIRE),
        *[Op("F", guard="?0")] * fence,
        Op("R", 0, at, guard="?0"),
    ]
    second += [Op("D", 0, guard="?0")] * (source.random() < 0.6)
    rest = [_own(source, 1)[0] for _ in range(count - 2)]
    return [first, second, *rest]


def _signalled(source: random.Random, count: int) -> _Made:
    """Let one thread signal others, by a word of a block, that the rest of it is written."""
    by_slot = source.random() < 0.5
    orders = source.choice(((RELEASE, ACQUIRE), (RELEASE, ACQUIRE), (RELAXED, ACQUIRE), (RELAXED, RELAXED)))
    fences = RELAXED in orders and source.random() < 0.6
    first = [
        Op("M", 0, 8),
        Op("W", 0, 4, 0),
        Op("P", 0, 0, 1, RELEASE if by_slot else WEAK),
        *[Op("B")] * (not by_slot),
    ]
    first += [Op("W", 0, 0, 2), *[Op("F")] * fences, Op("S", 0, 4, 1, orders[0])]
    guard = "?0" if by_slot else ""
    others = [Op("G", 0, 0, 1, ACQUIRE)] if by_slot else [Op("B"), Op("G", 0, 0, 1)]
    others += [Op("L", 0, 4, 0, orders[1], guard), *[Op("F")] * fences, Op("R", 0, 0, guard="?t1")]
    if count == 2:
        return [first, [*others, *[Op("D", 0, guard="?t1")] * (source.random() < 0.5)]]
    return [first, others, others if source.random() < 0.5 else [*[Op("B")] * (not by_slot), Op("M", 0, 4), Op("D", 0)]]


def _random(source: random.Random, count: int) -> _Made:
    barriers = source.choice((0, 0, 1, 2))
    made: _Made = []
    for _ in range(count):
        ops = [Op("M", source.randrange(2), _size(source)) for _ in range(source.choice((0, 1, 1)))]
        ops += [_drawn(source) for _ in range(source.randint(2, 4))]
        for _ in range(barriers):
            ops.insert(source.randrange(len(ops) + 1), Op("B"))
        made.append(ops)
    return made


def _drawn(source: random.Random) -> Op:
    kind = source.choice("WWRRRAVUDDPPGGGNCFSL")
    v, n, value = source.randrange(2), 4 * source.choice((0, 0, 0, 1, 1, 2, 3)), source.randrange(2)
    if kind == "N":
        return Op(kind, v, source.choice((-4, 4, 8)), value)
    if kind in "PG":
        strong = (RELAXED, RELEASE if kind == "P" else ACQUIRE)
        return Op(kind, v, 0, value, source.choice((WEAK, WEAK, *strong)), source.choice(("", "", f"?{v}")))
    if kind in "SL":
        order = source.choice((RELAXED, RELEASE if kind == "S" else ACQUIRE))
        return Op(kind, v, n, value * (kind == "S"), order, source.choice(("", f"?{v}")))
    if kind == "C":
        return Op(kind, order=source.choice((RELAXED, ACQ_REL)))
    if kind == "F":
        return Op(kind)
    guard = source.choice(("", "", "", f"?{v}", f"?{v}", f"!{1 - v}", "?t0"))
    return Op(kind, v, 0 if kind == "D" else n, value + 1 if kind in "WV" else 0, guard=guard)


_ALONE = (_own, _flagged, _flagged, _signalled, _random)
_SHAPES = (_own, _handed, _handed, _shared, _shared, _flagged, _signalled, _random)


def _other(source: random.Random, op: Op) -> Op:
    if op.kind in "PGCSL" and op.order != WEAK and source.random() < 0.6:
        return op._replace(order=RELAXED)
    if op.kind in "PG":
        return op._replace(order=WEAK)
    if op.guard and source.random() < 0.6:
        return op._replace(guard="")
    if op.kind == "M":
        return op._replace(n=source.choice((4, 8, 12, 16, HUGE)))
    if op.kind in "RWAUVNSL":
        return op._replace(n=op.n + source.choice((-4, 4, 4, 8, 16, 32)))
    return op._replace(guard="!0")


def recursive_program(source: random.Random) -> Program:
    """Return such a program in a function that calls itself."""
    return heap_program(source)._replace(depth=source.choice((1, 1, 2, 3)))


HEAP_FAMILIES: dict[str, Callable[[random.Random], Program]] = {
    "heap": heap_program,
    "recursive heap": recursive_program,
}


# -- judging ----------------------------------------------------------------------------------------------------------
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
        return f"{self.complaint}: {self.program}: {sorted(self.outlook.faults)}, {self.verdicts} {self.codes}"


def judged_heap(program: Program, engines: tuple[Any, ...] = ("vm",), *, generic: bool = False) -> Judged:
    outlook = explore(program)
    if not outlook.known:
        return Judged(program, outlook, (), (), "")
    source, grid, block = ptx(program, generic=generic)
    kernel = wsemu.load_ptx(source)["k"]
    said, complaint = [], ""
    for engine in engines:
        held = np.zeros(len(program.threads), np.uint32)
        arguments = np.zeros(SLOTS, np.uint64), np.zeros(1, np.uint32), held
        report = wsemu.check(kernel, grid, block, arguments, engine=engine)
        codes = tuple(sorted({finding.code for finding in report.findings if finding.severity == "error"}))
        said.append((report.verdict, codes))
        complaint = complaint or _complaint(program, outlook, report, codes, held.tolist())
    if len(set(said)) > 1:
        complaint = complaint or f"engines differ: {said}"
    return Judged(program, outlook, tuple(verdict for verdict, _ in said), said[0][1], complaint)


def _complaint(
    program: Program, outlook: Outlook, report: wsemu.Report, codes: tuple[str, ...], held: list[int]
) -> str:
    if report.verdict == "verified":
        left = next((note.split(" bytes")[0] for note in report.notes if "were not freed" in note), "0")
        came = (tuple(held), int(left.replace(",", "")))
        return "missed" if outlook.faults else "" if came in outlook.outcomes else f"values {came}"
    if report.verdict == "failed":
        if not outlook.faults:
            return "false alarm"
        unknown = {CODES.get(code, code) for code in codes} - outlook.faults - ({UNSET} if outlook.doubtful else set())
        return f"wrong reason {sorted(unknown)}" if unknown else ""
    return ""


def smaller_heap(program: Program, fails: Callable[[Program], bool]) -> Program:
    """Return a part of the program that still fails."""

    def parts(made: tuple[tuple[Op, ...], ...]) -> Iterator[tuple[tuple[Op, ...], ...]]:
        for which in range(sum(op.kind == "B" for op in made[0])):
            yield tuple(tuple(without_barrier(list(ops), which)) for ops in made)
        for n, ops in enumerate(made):
            if len(made) > 2:
                yield (*made[:n], *made[n + 1 :])
            for at, op in enumerate(ops):
                if op.kind != "B":
                    yield (*made[:n], (*ops[:at], *ops[at + 1 :]), *made[n + 1 :])

    while True:
        less = next((p for made in parts(program.threads) if fails(p := program._replace(threads=made))), None)
        if less is None:
            return program
        program = less
