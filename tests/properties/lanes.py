"""Programs whose warps diverge: a notation, and the steps of their lanes.

A warp is a block of statements, as in `w0: if low { W(0) } else { a(1,64) } Y | w1: loop 2 { S(1+k,64) R(0) }`:

    S(b,n) A(b,n)        bar.sync and bar.arrive on barrier b for n threads; without n, the whole CTA.  s and a are the
                         unaligned forms, barrier.sync and barrier.arrive
    P(b,n,p) N O p n o   bar.red.popc, .and and .or of predicate p (PREDICATES), their unaligned forms; n = 0: the CTA
    R(v) W(v) C(v)       read, write and atomic addition; `R(v,back)` at another place of the row v (PLACES)
    Y V y                syncwarp and a vote of the whole warp; a syncwarp of the lanes that are in this branch
    X                    return
    if low { } else { }  for the lanes of a class (CLASSES)
    loop 3 { }           in which `+k` adds its counter; `loop 3 low { }` runs once more for those lanes
    steer P(b,n,p) 7 { } else { }   whether a reduction has that result
    chance v { } else { }           whether an atomic addition to word v, one place for all, gave an even number

No condition divides the three classes of lanes of a warp.  So control flow is that of Python: `unrolled` returns a
straight-line program for each class.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

LANES: Final = 32
CLASSES: Final = (range(1), range(1, 16), range(16, 32))
"""lanes that always execute the same operations"""
EVERYONE: Final = frozenset(range(len(CLASSES)))
GROUPS: Final[dict[str, tuple[frozenset[int], str]]] = {
    "one": (frozenset({0}), "lane == 0"),
    "low": (frozenset({0, 1}), "lane < 16"),
    "high": (frozenset({2}), "lane >= 16"),
    "rest": (frozenset({1, 2}), "lane > 0"),
}
"""name -> classes, the condition in a kernel"""
PREDICATES: Final = ("True", "lane < 7", "t < 40", "lane >= 16", "w == 1")


class Place(NamedTuple):
    """The positions of an access's lanes in a row of 32 words."""

    size: int
    """bytes a lane"""
    element: str
    """its index in the row, of elements of that size"""

    def start(self, lane: int) -> int:
        """Return the first byte of a lane's part."""
        return self.size * int(eval(self.element, {"lane": lane}))


PLACES: Final = {
    "": Place(4, "lane"),
    "back": Place(4, "31 - lane"),
    "side": Place(4, "(lane ^ 16)"),
    "first": Place(4, "0"),
    "pair": Place(8, "lane % 16"),
    "byte": Place(1, "lane"),
    "last": Place(1, "4 * lane + 3"),
}
SYNCS, ARRIVES, REDUCES = "Ss", "Aa", {"P": "popc", "N": "and", "O": "or", "p": "popc", "n": "and", "o": "or"}
BARRIERS: Final = SYNCS + ARRIVES + "".join(REDUCES)
READ, WRITE, ATOMIC = ACCESSES = "RWC"
WARP, SOME, EXIT = "YV", "y", "X"


class Act(NamedTuple):
    """One operation."""

    kind: str
    number: int = 0
    """the barrier or the row"""
    stride: bool = False
    """the loop's counter is added to the number"""
    threads: int = 0
    """a barrier's count, 0 for the whole CTA"""
    detail: str = ""
    """the position of an access, the predicate of a reduction"""


class If(NamedTuple):
    group: str
    then: Block
    other: Block


class Loop(NamedTuple):
    times: int
    more: str
    """a group of lanes that do one more, or none"""
    body: Block


class Steer(NamedTuple):
    """Branches on the result of a reduction (`act`), or, if `act` is an ATOMIC, of an atomic."""

    act: Act
    equal: int
    then: Block
    other: Block


Statement = Act | If | Loop | Steer
Block = tuple[Statement, ...]
Lanes = tuple[Block, ...]
"""a program: the block of each warp"""

# -- notation ----------------------------------------------------------------------------------------------------------


def act_text(act: Act) -> str:
    kind, number, stride, threads, detail = act
    if kind in WARP + SOME + EXIT:
        return kind
    place = f"{number}+k" if stride else str(number)
    parts = [place, *[str(threads)] * bool(threads or kind in REDUCES), *[detail] * bool(detail)]
    return f"{kind}({','.join(parts)})"


def block_text(block: Block) -> str:
    return " ".join(["{", *map(_text, block), "}"])


def _text(statement: Statement) -> str:
    match statement:
        case Act():
            return act_text(statement)
        case If(group, then, other):
            return f"if {group} {block_text(then)}" + (f" else {block_text(other)}" if other else "")
        case Loop(times, more, body):
            return f"loop {times} {more + ' ' if more else ''}{block_text(body)}"
        case Steer(act, equal, then, other):
            head = f"chance {act.number}" if act.kind == ATOMIC else f"steer {act_text(act)} {equal}"
            return f"{head} {block_text(then)}" + (f" else {block_text(other)}" if other else "")


def lanes_notation(program: Lanes) -> str:
    """Return the program as one line."""
    return " | ".join(" ".join([f"w{w}:", *map(_text, block)]) for w, block in enumerate(program))


_TOKEN = re.compile(r"[A-Za-z]\([^)]*\)|[{}]|[A-Za-z0-9]+")


def parse_lanes(line: str) -> Lanes:
    """Return the program that `lanes_notation` wrote."""
    return tuple(_block(_TOKEN.findall(warp.partition(":")[2])[::-1]) for warp in line.split("|"))


def _block(tokens: list[str]) -> Block:
    """Return the statements up to the closing brace; `tokens` are in reverse order."""
    made: list[Statement] = []
    while tokens and (token := tokens.pop()) != "}":
        made.append(_statement(token, tokens))
    return tuple(made)


def _statement(token: str, tokens: list[str]) -> Statement:
    if token == "loop":
        times = int(tokens.pop())
        more = tokens.pop() if tokens[-1] != "{" else ""
        return Loop(times, more, _braces(tokens))
    if token == "if":
        return If(tokens.pop(), *_branches(tokens))
    if token == "steer":
        act = _act(tokens.pop())
        return Steer(act, int(tokens.pop()), *_branches(tokens))
    if token == "chance":
        return Steer(Act(ATOMIC, int(tokens.pop()), detail="first"), 0, *_branches(tokens))
    return _act(token)


def _braces(tokens: list[str]) -> Block:
    tokens.pop()
    return _block(tokens)


def _branches(tokens: list[str]) -> tuple[Block, Block]:
    then = _braces(tokens)
    if not tokens or tokens[-1] != "else":
        return then, ()
    tokens.pop()
    return then, _braces(tokens)


def _act(token: str) -> Act:
    kind, inside = token[0], token[2:-1]
    if not inside:
        return Act(kind)
    number, *rest = inside.split(",")
    place, _, stride = number.partition("+")
    threads = int(rest.pop(0)) if kind in BARRIERS and rest else 0
    return Act(kind, int(place), bool(stride), threads, *rest)


# -- one class of lanes after another ----------------------------------------------------------------------------------


class Step(NamedTuple):
    """An operation of a class of lanes, with numbers in place of the loop's counter."""

    kind: str
    number: int
    threads: int
    detail: str
    site: tuple[int, ...]
    """its position in the warp's program: statement by statement and, in a loop, iteration by iteration"""
    equal: int = -1
    """the result with which a reduction continues at the next step; with any other one, it continues at `target`. -1:
    always at the next step"""
    target: int = 0
    members: frozenset[int] = frozenset()
    """classes that a syncwarp names"""
    place: tuple[int, ...] = ()
    """the site without iterations: the position in the code"""

    @property
    def is_barrier(self) -> bool:
        return self.kind in BARRIERS

    @property
    def is_meeting(self) -> bool:
        return self.kind in WARP + SOME

    @property
    def aligned(self) -> bool:
        return self.kind.isupper()


THEN, ELSE = -1, -2
"""the branches of a statement in a site"""
JUMP, PART, MEET = "J", "D", "M"
"""kinds of steps: a jump to its target; a branch at which the classes diverge, each to the side `number`; and the point
where they converge, which has the branch's site.  If that point exists, it is the branch's `target`"""


@lru_cache(4096)
def unrolled(block: Block, own: int) -> tuple[Step, ...]:
    """Return what class `own` of a warp with that program does, up to its end."""
    steps: list[Step] = []
    _unroll(block, own, _Where((), (), 0, EVERYONE), steps)
    return tuple(steps)


class _Where(NamedTuple):
    site: tuple[int, ...]
    place: tuple[int, ...]
    k: int
    """the loop's counter"""
    there: frozenset[int]
    """the classes that reach it"""

    def at(self, number: int) -> _Where:
        return self._replace(site=(*self.site, number), place=(*self.place, number))


def _unroll(block: Block, own: int, where: _Where, steps: list[Step]) -> None:
    """Append what a class does in a block."""
    for n, statement in enumerate(block):
        here = where.at(n)
        match statement:
            case Act():
                steps.append(_step(statement, here))
            case If(group, then, other):
                _in_sides(GROUPS[group][0], then, other, own, (here, here.at(THEN), here.at(ELSE)), steps)
            case Loop(times, more, body):
                for i in range(times):
                    _unroll(body, own, here._replace(site=(*here.site, i), k=i), steps)
                if more:
                    longer, last = GROUPS[more][0], here._replace(site=(*here.site, times), k=times)
                    _in_sides(longer, body, (), own, (here, last, here), steps)
            case Steer(act, _, then, other) if act.kind == ATOMIC:
                steps.append(_step(act, here))
                _unroll(then if statement.equal else other, own, here.at(THEN if statement.equal else ELSE), steps)
            case Steer(act, equal, then, other):
                at = len(steps)
                steps.append(_step(act, here))
                _unroll(then, own, here.at(THEN), steps)
                jump = len(steps)
                steps.append(Step(JUMP, 0, 0, "", here.site))
                steps[at] = steps[at]._replace(equal=equal, target=len(steps))
                _unroll(other, own, here.at(ELSE), steps)
                steps[jump] = steps[jump]._replace(target=len(steps))


def _in_sides(
    group: frozenset[int], then: Block, other: Block, own: int, where: tuple[_Where, _Where, _Where], steps: list[Step]
) -> None:
    """Append what a class does in its side of a branch, and where the sides part and meet."""
    here, *sides = where
    chosen = own in group
    there = here.there & group, here.there - group
    part = len(steps)
    if all(there):
        steps.append(Step(PART, int(chosen), 0, "", here.site))
    _unroll(then if chosen else other, own, sides[not chosen]._replace(there=there[not chosen]), steps)
    if all(there) and not (returns(then) or returns(other)):
        steps[part] = steps[part]._replace(target=len(steps))
        steps.append(Step(MEET, 0, 0, "", here.site))


def returns(block: Block) -> bool:
    """Return whether lanes may return in a block, so that not all that enter it reach its end."""
    for statement in block:
        match statement:
            case Act(kind) if kind == EXIT:
                return True
            case If(_, then, other) | Steer(_, _, then, other) if returns(then) or returns(other):
                return True
            case Loop(_, _, body) if returns(body):
                return True
    return False


def _step(act: Act, where: _Where) -> Step:
    site, place, k, there = where
    members = there if act.kind == SOME else EVERYONE
    return Step(act.kind, act.number + k * act.stride, act.threads, act.detail, site, members=members, place=place)


def has_branches(program: Lanes) -> bool:
    """Return whether lanes take different branches somewhere."""
    return any(" if " in f" {block_text(block)}" for block in program)


def predicate(number: int, warp: int, lane: int) -> bool:
    """Return whether PREDICATES[number] holds for a thread."""
    return (True, lane < 7, LANES * warp + lane < 40, lane >= 16, warp == 1)[number]


# -- bytes -------------------------------------------------------------------------------------------------------------


@lru_cache(4096)
def bytes_of(place: str, lane: int) -> range:
    """Return the bytes of the row that a lane accesses."""
    start = PLACES[place].start(lane)
    return range(start, start + PLACES[place].size)


@lru_cache(4096)
def meet(place: str, own: int, other: str, others: int, same_warp: bool) -> bool:
    """Return whether a lane of class `own` and one of class `others` touch one byte at these positions of one row.  For
    one warp: two different lanes, since what one lane does is ordered."""
    return any(
        set(bytes_of(place, i)) & set(bytes_of(other, j))
        for i in CLASSES[own]
        for j in CLASSES[others]
        if not (same_warp and i == j)
    )
