"""Treat lanes of a warp that poll one location together as one lane.  They poll in a loop that only reads there until
it may continue.

It would give too many interleavings to distinguish which lane reads which value at which time, and it makes no
difference.  An unsuccessful attempt only acquires more for its lane, so it can be ignored.  After the loop, the value
that a lane has read is unused.  No lane reaches an ordered access again before the lanes of the warp have met at a
barrier or a warp-wide operation.  So the behavior of others does not depend on which lanes have continued.  A lane that
reads a later value than the rest of its warp could have read the earlier one, and a lane that waits forever could have
waited with the whole warp.  Suppose that lanes that all read the same value do nothing wrong, whatever that value is.
Then lanes that read different values do nothing wrong either.  `decide.py` determines whether lanes may run ahead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wsemu.model.control_flow import ENDS, EXIT, successors
from wsemu.model.isa import LANES, NAMES, NO_STORE, OPERATIONS
from wsemu.proof.liveness import live_rows
from wsemu.proof.taint_steps import plain_decoder

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wsemu.launch.explore.session import Ask, Moved, Session
    from wsemu.model.program import Program

_QUIET = ("alu", "fence", "control")
"""kinds of operations that a waiting loop may contain besides its access"""


def find_polls(program: Program, ordered: Iterable[int]) -> dict[int, int]:
    """Map accesses in polling loops to the position where the loop continues.  Such a loop only repeats accesses that
    do not write.  Nothing that it computes is used after it, or by its next round."""
    code = program.code.tolist()
    found: dict[int, int] = {}
    live: list[frozenset[int]] | None = None
    for pc in ordered:
        loop = _loop(code, pc) if code[pc][7] & NO_STORE and not code[pc][1] else None
        if loop is None:
            continue
        live = live or live_rows(program)
        inside, after = loop
        decoder = plain_decoder(program)
        written = {row for at in inside for step in decoder.steps(at) for row in step.writes}
        read = {row for at in inside for step in decoder.steps(at) for row in (*step.reads, *step.operands)}
        later = live[after] if after < len(code) else frozenset[int]()
        begin = frozenset[int]().union(*(live[at] for at in _list_entries(code, inside)))
        if not written & (later | (begin & read)):
            found[pc] = after
    return found


def find_rows(program: Program, pc: int) -> frozenset[int]:
    """Return the registers that the loop around an access of `find_polls` reads, and does not write before."""
    known: dict[int, frozenset[int]] = program.derived.setdefault("registers of polls", {})
    if pc not in known:
        loop = _loop(program.code.tolist(), pc)
        decoder = plain_decoder(program)
        steps = [step for at in loop[0] for step in decoder.steps(at)] if loop else []
        read = {row for step in steps for row in (*step.reads, *step.operands)}
        known[pc] = frozenset(read - {row for step in steps for row in step.writes})
    return known[pc]


def _loop(code: list[list[int]], pc: int) -> tuple[list[int], int] | None:
    """Return the instructions of the loop around an access, and the instruction after the loop, or the end of the
    code.  Return None if the loop has effects, or not exactly one branch that leaves it."""
    inside, at, after = [pc], pc, -1
    while True:
        ways = [way for way in successors(at, code[at]) if way < len(code)]
        if code[at][0] == EXIT and len(ways) == 1:
            ways.append(len(code))  # lanes that may leave the loop end there
        if len(ways) == 2:
            back = [way for way in ways if _comes_back(code, way, pc)]
            if after >= 0 or len(back) != 1:
                return None
            (at,) = back
            after = next(way for way in ways if way != at)
        elif len(ways) == 1:
            (at,) = ways
        else:
            return None
        if at == pc:
            return (inside, after) if after >= 0 else None
        name = NAMES[code[at][0]]
        if OPERATIONS[name].kind not in _QUIET or not successors(at, code[at]) or at in inside:
            return None
        inside.append(at)


def _list_entries(code: list[list[int]], inside: list[int]) -> list[int]:
    """Return the instructions of a loop that others lead to; a loop may be entered at its end."""
    loop = frozenset(inside)
    ways = {way for at, fields in enumerate(code) if at not in loop for way in successors(at, fields)}
    return [at for at in inside if at in ways or not at]


def _comes_back(code: list[list[int]], at: int, pc: int) -> bool:
    """Return whether an instruction leads to the access, without a branch."""
    seen = set[int]()
    while at != pc:
        if at in seen or at >= len(code) or code[at][0] in ENDS:
            return False
        seen.add(at)
        ways = successors(at, code[at])
        if len(ways) != 1:
            return False
        (at,) = ways
    return True


class Polls:
    """A session in which lanes that poll one location together continue together; the first of them represents the
    others."""

    def __init__(self, session: Session, loops: dict[int, int]) -> None:
        self.__dict__.update(session=session, loops=loops)

    session: Session
    loops: dict[int, int]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.session, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.session, name, value)

    def asks(self, cta: int) -> list[Ask]:
        all_ = self.session.asks(cta)
        return [ask for ask in all_ if ask == self._companions(ask, all_)[0]]

    def go(self, ask: Ask) -> Moved:
        first, *rest = self._companions(ask, self.session.asks(ask.cta))
        moved = self.session.go(first)
        for other in rest:
            if moved.status not in ("stands", "done"):
                break
            then = self.session.go(other)
            moved = then._replace(made=[*moved.made, *then.made])
        return moved

    def _companions(self, ask: Ask, asks: list[Ask]) -> list[Ask]:
        """Return the lanes that continue with one."""
        if ask.pc not in self.loops:
            return [ask]
        there = [other for other in asks if other[:2] == ask[:2] and other.pc == ask.pc]
        return there if len({other.place for other in there}) == 1 else [ask]

    def ahead(self, cta: int, warp: int, pc: int) -> list[int]:
        """Return the instructions that lanes waiting before an access may reach before other lanes have issued it."""
        lanes = next((asks for number, _, asks in self.session.alive(cta) if number == warp), 0)
        return [self.loops.get(pc, pc + 1)] if (lanes & ((1 << LANES) - 1)).bit_count() > 1 else []
