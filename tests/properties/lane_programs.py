"""Random programs whose warps diverge (lanes.py), and the kernels that execute them.

A program begins as one of the abstract programs of programs.py, half of which are correct.  Each family
then changes it in one way.

    diverged    operations move into branches on lanes: into one branch, into both, to an elected lane
    exits       lanes or warps return early
    whole       barriers lose their counts, where many meet
    reductions  syncs become reductions, and results steer
    loops       stretches are repeated, with the iteration in barriers and addresses
    atomics     accesses become atomic additions; some of their results steer
    mixed       two or three of these
"""

from __future__ import annotations

import itertools
import linecache
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

import wsemu
from tests.properties.explorer import WRITE, Operation, outlook
from tests.properties.lanes import (
    ACCESSES,
    ARRIVES,
    ATOMIC,
    BARRIERS,
    CLASSES,
    EVERYONE,
    GROUPS,
    LANES,
    PLACES,
    PREDICATES,
    READ,
    REDUCES,
    SYNCS,
    Act,
    Block,
    If,
    Lanes,
    Loop,
    Statement,
    Steer,
    predicate,
)
from tests.properties.programs import FAMILIES, Random
from wsemu import cuda, ptx

ROWS: Final = 6
"""number of rows of 32 words; the last one is for atomics whose results influence control flow"""
_numbers = itertools.count()
Edit = Callable[[Random, Block], Block]


# -- families ----------------------------------------------------------------------------------------------------------


def _started(random: Random, longest: int = 5) -> Lanes:
    """Return a shortened abstract program, mostly a correct one: then only the later changes can break it."""
    correct = random.random() < 0.8
    for _ in range(20):
        made = tuple(warp[:longest] for warp in FAMILIES[random.choice(sorted(FAMILIES))](random))
        if any(made) and not (correct and outlook(made).faults):
            break
    return tuple(tuple(map(_act, warp)) for warp in made)


def _act(operation: Operation) -> Act:
    kind, place, threads = operation
    return Act("W" if kind == WRITE else kind, place + operation.is_barrier, False, threads)


def _each(random: Random, program: Lanes, edit: Edit, share: float) -> Lanes:
    """Return the program with some of its warps edited, and at least one."""
    sure = random.randrange(0, len(program))
    return tuple(
        edit(random, block) if w == sure or random.random() < share else block for w, block in enumerate(program)
    )


def _with_warp_steps(random: Random, block: Block) -> Block:
    """Insert syncwarps between the operations, so that accesses to other lanes' words are ordered as well."""
    made: list[Statement] = []
    for statement in block:
        made.append(statement)
        if random.random() < 0.3:
            made.append(Act("Y"))
    return tuple(made)


def _elsewhere(random: Random, block: Block) -> Block:
    """Move accesses to other positions of their rows."""
    places = [*PLACES, "", ""]
    words = [place for place in places if PLACES[place].size >= 4]
    return tuple(
        s._replace(detail=random.choice(words if s.kind == ATOMIC else places))
        if isinstance(s, Act) and s.kind in ACCESSES
        else s
        for s in block
    )


def _in_branches(block: Block) -> Block:
    """Return operations in the form that a branch on lanes allows: aligned barriers become unaligned."""

    def unaligned(statement: Statement) -> Statement:
        match statement:
            case Act(kind) if kind in BARRIERS and (statement.threads or kind not in REDUCES):
                return statement._replace(kind=kind.lower())
            case If(_, then, other) | Steer(_, _, then, other):
                return statement._replace(then=_in_branches(then), other=_in_branches(other))
            case Loop(_, _, body):
                return statement._replace(body=_in_branches(body))
        return statement

    return tuple(map(unaligned, block))


def _parted(random: Random, block: Block) -> Block:
    """Move part of a warp's code into one branch on lanes, into both, or distribute it over both."""
    if not block:
        return block
    begin = random.randrange(0, len(block))
    end = random.randrange(begin, min(begin + 3, len(block))) + 1 if random.random() < 0.6 else len(block)
    stretch = block[begin:end]
    if random.random() < 0.9:
        stretch = _in_branches(stretch)
    group = random.choice(sorted(GROUPS))
    barriers, accesses = _of(stretch, BARRIERS), _of(stretch, ACCESSES)
    k = random.randrange(0, len(stretch) + 1)
    parted = random.choice(
        (
            If(group, stretch, ()),  # an elected lane, the lower half, ..
            If(group, barriers, accesses),
            If(group, stretch[:k], stretch[k:]),
            *[If(group, stretch, stretch)] * 2,  # all of them, from two call sites
            *[If(group, stretch, barriers)] * 2,
            If(group, stretch, (Act("y"), *barriers)),
            If(group, (*accesses, Act("y")), ()),
        )
    )
    if random.random() < 0.2:
        parted = parted._replace(other=(Act(random.choice("YyyV")), *parted.other))
    before = (Act("Y"),) if random.random() < 0.5 else ()
    after = (Act("Y"),) if random.random() < 0.5 else ()
    return (*block[:begin], *before, parted, *after, *block[end:])


def _of(block: Block, kinds: str) -> Block:
    return tuple(s for s in block if isinstance(s, Act) and s.kind in kinds)


def diverged(random: Random) -> Lanes:
    """Return programs in which lanes of warps take different branches that contain barriers."""
    program = _each(random, _started(random), _parted, 0.4)
    if random.random() < 0.3:
        program = _each(random, program, _elsewhere, 0.5)
    return _each(random, program, _with_warp_steps, 0.3) if random.random() < 0.3 else program


def _leaving(random: Random, block: Block) -> Block:
    """Let lanes, or all of them, return somewhere, after a few more operations or before."""
    at = random.randrange(0, len(block) + 1)
    stretch = block[at : at + random.randrange(0, 3)]
    way = random.randrange(0, 4)
    if way == 0:
        return (*block[:at], Act("X"))
    group = random.choice(sorted(GROUPS))
    last = tuple(s for s in stretch if not (isinstance(s, Act) and s.kind in BARRIERS)) if way < 3 else stretch
    step = (Act("Y"),) if random.random() < 0.3 else ()
    return (*block[:at], *step, If(group, (*_in_branches(last), Act("X")), ()), *block[at:])


def exits(random: Random) -> Lanes:
    """Return programs in which lanes and warps return early."""
    program = _started(random)
    if random.random() < 0.4:
        program = _each(random, program, _unaligned_all, 0.5)
    if random.random() < 0.5:
        program = whole_of(random, program)
    return _each(random, program, _leaving, 0.3)


def _unaligned_all(random: Random, block: Block) -> Block:
    return _in_branches(block)


def whole_of(random: Random, program: Lanes) -> Lanes:
    """Remove the counts of some barriers, or of some operations."""
    number = random.randrange(1, 5)
    share = random.choice((1.0, 1.0, 0.8))

    def uncounted(statement: Statement) -> Statement:
        if not isinstance(statement, Act) or statement.kind not in SYNCS + ARRIVES or random.random() > share:
            return statement
        if number < 4 and statement.number != number:
            return statement
        return statement._replace(kind="S" if statement.kind.isupper() else "s", threads=0)

    return tuple(tuple(map(uncounted, block)) for block in program)


def whole(random: Random) -> Lanes:
    """Return programs with barriers without a count.  They replace barriers with a count, or follow the operations of
    all warps; some lanes exit."""
    program = whole_of(random, _started(random, 7))
    if random.random() < 0.5:
        meeting = Act("S") if random.random() < 0.5 else Act(random.choice("PNO"), detail="1")
        twice = (meeting,) if random.random() < 0.9 else ()
        program = tuple((*block, meeting, *_of(block[:2], ACCESSES), *twice) for block in program)
    if random.random() < 0.2:
        program = _each(random, program, _with_some_waiting, 0.0)
    return _each(random, program, _leaving, 0.0) if random.random() < 0.3 else program


def _with_some_waiting(random: Random, block: Block) -> Block:
    """Make the last operation a separate syncthreads."""
    return (*block, Act("S"))


def _reducing(random: Random, program: Lanes) -> Lanes:
    """Turn the syncs of some barriers into reductions of one kind, in most programs the arrives as well."""
    kinds = {number: random.choice("PPNO") for number in range(6) if random.random() < 0.7}
    all_of_them = random.random() < 0.8

    def reduced(statement: Statement) -> Statement:
        if not isinstance(statement, Act) or statement.number not in kinds or random.random() < 0.05:
            return statement
        if statement.kind not in SYNCS + (ARRIVES if all_of_them else ""):
            return statement
        kind = kinds[statement.number]
        kind = kind if statement.kind.isupper() else kind.lower()
        return statement._replace(kind=kind, detail=str(random.randrange(0, len(PREDICATES))))

    return tuple(tuple(map(reduced, block)) for block in program)


def _steered(random: Random, program: Lanes) -> Lanes:
    """Let some of the reductions decide what comes after them."""
    return tuple(_steering(random, w, block, len(program)) for w, block in enumerate(program))


def _steering(random: Random, w: int, block: Block, warps: int) -> Block:
    for k, statement in enumerate(block):
        if isinstance(statement, Act) and statement.kind in REDUCES and random.random() < 0.5:
            rest = block[k + 1 :]
            cut = random.randrange(0, len(rest) + 1)
            equal = random.choice((0, 1, 1)) if REDUCES[statement.kind] != "popc" else _likely(random, statement, warps)
            branches = (rest[:cut], ()) if random.random() < 0.5 else (rest[:cut], rest[:cut])
            if random.random() < 0.3:
                branches = branches[::-1]
            return (*block[:k], Steer(statement, equal, *branches), *rest[cut:])
    return block


def _likely(random: Random, act: Act, warps: int) -> int:
    """Return a likely number of true predicates of a generation."""
    groups = [sum(predicate(int(act.detail), w, lane) for lane in range(LANES)) for w in range(warps)]
    return sum(random.sample(groups, random.randrange(1, warps + 1)))


def reductions(random: Random) -> Lanes:
    """Return programs with barriers that reduce, and results that influence control flow."""
    program = _reducing(random, _started(random, 7))
    program = _steered(random, program) if random.random() < 0.6 else program
    return _each(random, program, _parted, 0.2) if random.random() < 0.2 else program


def _looping(random: Random, program: Lanes) -> Lanes:
    """Repeat part of each warp's code; barriers and rows that depend on the iteration do so in all warps."""
    times = random.choice((2, 2, 3))
    meeting = (Act("S", threads=random.choice((0, LANES * len(program)))),) if random.random() < 0.6 else ()
    moving = {number for number in range(1, 4) if random.random() < 0.4}
    rows = {number for number in range(2) if random.random() < 0.4}
    uneven = random.random() < 0.2

    def moved(statement: Statement) -> Statement:
        if not isinstance(statement, Act):
            return statement
        follows = statement.number in (rows if statement.kind in ACCESSES else moving)
        return statement._replace(stride=follows and random.random() < 0.95)

    def looped(block: Block) -> Block:
        begin = 0 if not block or random.random() < 0.7 else random.randrange(0, len(block))
        end = len(block) if not block or random.random() < 0.7 else random.randrange(begin, len(block)) + 1
        more = random.choice(sorted(GROUPS)) if uneven and random.random() < 0.5 else ""
        body = (*map(moved, block[begin:end]), *meeting)
        again = times if random.random() < 0.9 else random.randrange(1, 4)
        return (*block[:begin], Loop(again, more, _in_branches(body) if more else body), *block[end:])

    return tuple(map(looped, program))


def loops(random: Random) -> Lanes:
    """Return programs with loops."""
    program = _started(random, 4)
    if random.random() < 0.2:
        program = _reducing(random, program)
    if random.random() < 0.2:
        program = whole_of(random, program)
    program = _looping(random, program)
    if random.random() < 0.15:
        program = tuple(
            (*block[:k], b._replace(body=_parted(random, b.body)), *block[k + 1 :])
            if (k := next((k for k, s in enumerate(block) if isinstance(s, Loop)), -1)) >= 0
            and isinstance(b := block[k], Loop)
            else block
            for block in program
        )
    return program


def _atomic(random: Random, program: Lanes) -> Lanes:
    """Make accesses of some rows, or some of their accesses, atomic."""
    rows = {number for number in range(3) if random.random() < 0.6}
    share = random.choice((1.0, 1.0, 0.7))
    place = random.choice(("", "", "first"))

    def counted(statement: Statement) -> Statement:
        if not isinstance(statement, Act) or statement.kind not in ACCESSES or statement.number not in rows:
            return statement
        return statement._replace(kind=ATOMIC, detail=place) if random.random() < share else statement

    return tuple(tuple(map(counted, block)) for block in program)


def _taking_chances(random: Random, block: Block) -> Block:
    """Let a lane decide by an atomic's result whether it does something."""
    at = random.randrange(0, len(block) + 1)
    stretch = _in_branches(block[at : at + 1])
    chance = Steer(Act(ATOMIC, ROWS - 1, detail="first"), 0, stretch, (Act(READ, 0),))
    return (*block[:at], If("one", (chance,), ()), *block[at + 1 :])


def atomics(random: Random) -> Lanes:
    """Return programs with atomics among plain accesses; in some, their results influence control flow."""
    program = _atomic(random, _started(random, 7))
    if random.random() < 0.2:
        program = _each(random, program, _with_warp_steps, 0.3)
    return _each(random, program, _taking_chances, 0.0) if random.random() < 0.25 else program


def mixed(random: Random) -> Lanes:
    """Apply two or three of these families."""
    program = _started(random, 4)
    if random.random() < 0.3:
        program = _reducing(random, program)
    if random.random() < 0.4:
        program = _atomic(random, program)
    if random.random() < 0.4:
        program = whole_of(random, program)
    if random.random() < 0.3:
        program = _looping(random, program)
    if random.random() < 0.6:
        program = _each(random, program, _parted, 0.3)
    if random.random() < 0.4:
        program = _each(random, program, _leaving, 0.2)
    return _each(random, program, _elsewhere, 0.5) if random.random() < 0.2 else program


LANE_FAMILIES: Final[dict[str, Callable[[Random], Lanes]]] = {
    make.__name__: make for make in (diverged, exits, whole, reductions, loops, atomics, mixed)
}


def smaller_lanes(program: Lanes, wrong: Callable[[Lanes], bool]) -> Lanes:
    """Return the program with statements removed one by one while it stays `wrong`."""
    for w, block in enumerate(program):
        for shorter in _shorter(block):
            less = (*program[:w], shorter, *program[w + 1 :])
            if wrong(less):
                return smaller_lanes(less, wrong)
    return program


def _shorter(block: Block) -> list[Block]:
    made: list[Block] = []
    for k, statement in enumerate(block):
        for instead in ((), *_less(statement)):
            made.append((*block[:k], *instead, *block[k + 1 :]))
    return made


def _less(statement: Statement) -> list[Block]:
    """Return replacements for a statement that are smaller."""
    match statement:
        case If(_, then, other) | Steer(_, _, then, other):
            inside = [(statement._replace(then=b),) for b in _shorter(then)]
            inside += [(statement._replace(other=b),) for b in _shorter(other)]
            return [then, other, *inside]
        case Loop(times, more, body):
            fewer = [(statement._replace(times=times - 1),)] if times > 1 else []
            once = [(statement._replace(more=""),)] if more else []
            return [*fewer, *once, *[(statement._replace(body=b),) for b in _shorter(body)]]
    return [(statement._replace(detail=""),)] if statement.kind in ACCESSES and statement.detail else []


# -- kernels -----------------------------------------------------------------------------------------------------------
#
# The rows are in dynamic shared memory, which three arrays of different types alias.  Warp 0 sets them to 0 and
# syncthreads orders that before everything else, as in programs.py.

ELEMENTS: Final = {1: "small", 4: "cells", 8: "wide"}
OPPOSITE: Final = {"one": "rest", "rest": "one", "low": "high", "high": "low"}


class _Scope(NamedTuple):
    """The surroundings of a statement."""

    indent: int
    there: frozenset[int]
    """classes of lanes that execute it"""
    counter: str = "0"
    """counter of the innermost loop"""
    longer: tuple[tuple[str, frozenset[int]], ...] = ()
    """for each enclosing loop whose last iteration has fewer lanes: the test for that iteration, and its lanes"""

    def inside(self, group: frozenset[int]) -> _Scope:
        return self._replace(indent=self.indent + 1, there=self.there & group)


def _mask(scope: _Scope) -> str:
    """Return the lanes that execute a statement."""
    if not scope.longer:
        return hex(sum(1 << lane for c in scope.there for lane in CLASSES[c]))
    (last, group), *rest = scope.longer
    always = scope._replace(longer=tuple(rest))
    return f"({_mask(always._replace(there=scope.there & group))} if {last} else {_mask(always)})"


class _Writer:
    """Writes a kernel; with `mirrored`, the branches of each condition are exchanged."""

    def __init__(self, mirrored: bool) -> None:
        self.mirrored = mirrored
        self.lines: list[str] = []
        self.stores = 0

    def block(self, block: Block, scope: _Scope) -> None:
        if not block:
            self.put(scope.indent, "pass")
        for statement in block:
            self.statement(statement, scope)

    def put(self, indent: int, text: str) -> None:
        self.lines.append("    " * indent + text)

    def statement(self, statement: Statement, scope: _Scope) -> None:
        match statement:
            case Act():
                self.put(scope.indent, self.act(statement, scope))
            case If(group, then, other):
                if self.mirrored:
                    group, then, other = OPPOSITE[group], other, then
                members, condition = GROUPS[group]
                self.put(scope.indent, f"if {condition}:")
                self.block(then, scope.inside(members))
                self.other(other, scope, scope.inside(EVERYONE - members))
            case Loop(times, more, body):
                self.loop(times, more, body, scope)
            case Steer(act, equal, then, other):
                self.put(scope.indent, self.condition(act, equal, scope))
                self.block(then, scope.inside(EVERYONE))
                self.other(other, scope, scope.inside(EVERYONE))

    def other(self, block: Block, outside: _Scope, inside: _Scope) -> None:
        if block:
            self.put(outside.indent, "else:")
            self.block(block, inside)

    def loop(self, times: int, more: str, body: Block, scope: _Scope) -> None:
        counter = f"k{scope.indent}"
        inside = scope.inside(EVERYONE)._replace(counter=counter)
        number = str(times)
        if more:
            members, condition = GROUPS[more]
            number = f"{times + 1} if {condition} else {times}"
            inside = inside._replace(longer=(*scope.longer, (f"{counter} == {times}", members)))
        self.put(scope.indent, f"for {counter} in range({number}):")
        self.block(body, inside)

    def condition(self, act: Act, equal: int, scope: _Scope) -> str:
        if act.kind == ATOMIC:
            return f"if cuda.atomic.add(cells, {32 * act.number}, 1) % 2 == 0:"
        call = self.reduction(act, scope)
        return f"if {call} == {equal}:" if REDUCES[act.kind] == "popc" else f"if {'' if equal else 'not '}{call}:"

    def act(self, act: Act, scope: _Scope) -> str:
        number = _number(act, scope)
        form = "bar" if act.kind.isupper() else "barrier"
        match act.kind:
            case "X":
                return "return"
            case "Y":
                return "cuda.syncwarp()"
            case "V":
                return "total += cuda.ballot_sync(0xFFFFFFFF, lane == 1)"
            case "y":
                return f"cuda.syncwarp({_mask(scope)})"
            case "R" | "W" | "C":
                return self.access(act, number)
            case "S" | "s" | "A" | "a":
                name = "sync" if act.kind in SYNCS else "arrive"
                return f"ptx.{form}_{name}({number}, {act.threads})" if act.threads else f"ptx.{form}_{name}({number})"
        return f"total += int({self.reduction(act, scope)})"

    def access(self, act: Act, number: str) -> str:
        place = PLACES[act.detail]
        array, index = ELEMENTS[place.size], f"{128 // place.size} * ({number}) + {place.element}"
        if act.kind == READ:
            return f"total += {array}[{index}]"
        if act.kind == ATOMIC:
            return f"cuda.atomic.add({array}, {index}, 1)"
        self.stores += 1
        return f"{array}[{index}] = {self.stores}"

    def reduction(self, act: Act, scope: _Scope) -> str:
        kind, holds = REDUCES[act.kind], PREDICATES[int(act.detail)]
        if act.threads:
            form = "bar" if act.kind.isupper() else "barrier"
            return f"ptx.{form}_red_{kind}({_number(act, scope)}, {act.threads}, {holds})"
        return f"cuda.syncthreads_{'count' if kind == 'popc' else kind}(int({holds}))"


def _number(act: Act, scope: _Scope) -> str:
    return f"{act.number} + {scope.counter}" if act.stride else str(act.number)


def lanes_source(program: Lanes, mirrored: bool = False) -> str:
    """Return a kernel that does what the program states."""
    writer = _Writer(mirrored)
    for text in (
        "small = cuda.shared.array(0, int8)",
        "cells = cuda.shared.array(0, int32)",
        "wide = cuda.shared.array(0, int64)",
        "t = cuda.threadIdx.x",
        f"w, lane = t // {LANES}, t % {LANES}",
        "total = 0",
        "if w == 0:",
        f"    for v in range({ROWS}):",
        "        cells[32 * v + lane] = 0",
        "cuda.syncthreads()",
    ):
        writer.put(1, text)
    for w, block in enumerate(program):
        writer.put(1, f"{'elif' if w else 'if'} w == {w}:")
        writer.block(block, _Scope(2, EVERYONE))
    return "\n".join(["@cuda.jit", "def kernel(out):", *writer.lines, "    out[t] = total", ""])


def check_lanes(program: Lanes, mirrored: bool = False, **options: Any) -> wsemu.Report:
    """Return the report on the program's kernel."""
    name = f"<program of lanes {next(_numbers)}>"
    text = lanes_source(program, mirrored)
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)  # from where the front end reads it
    space: dict[str, Any] = {"cuda": cuda, "ptx": ptx, "int8": np.int8, "int32": np.int32, "int64": np.int64}
    exec(compile(text, name, "exec"), space)
    threads = LANES * len(program)
    try:
        return wsemu.check(
            space["kernel"], 1, threads, (np.zeros(threads, np.int64),), dynamic_shared=128 * ROWS, **options
        )
    finally:
        del linecache.cache[name]
