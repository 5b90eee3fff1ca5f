"""What threads of a CTA do to shared memory and to mbarriers, where atomics steer and copies go on by themselves.

What a CTA does there depends on others by what its strong accesses to arrays return, and by nothing else.  The search
(`search.py`) tells states apart by the history of each CTA: its barriers, phases, copies and accesses to shared memory,
one after the other.  So each history that a CTA may have comes up, and an engine judges it as it judges any run: in one
order that has this history, with all that it looks for.  What CTAs do to arrays is judged in the search.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.launch.explore.session import Looking
from wsemu.launch.explore.sessions import make_session
from wsemu.model.isa import NAMES, RELAXED, REMOTE, WAIT_RELAXED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wsemu.launch.explore.session import Ask
    from wsemu.model.bound import Bound
    from wsemu.model.outcome import RawFinding
    from wsemu.model.program import Program
    from wsemu.proof.threads import Made

_FOLLOWED = (
    "mbarrier.", "cp.async.", "bulk.load", "bulk.store", "bulk.reduce", "bulk.commit", "bulk.wait", "bulk.prefetch",
    "bulk.zero", "setmaxnreg.",
)  # fmt: skip


def followed(program: Program) -> bool:
    """Whether all asynchronous operations of a program are such as the orders of its atomics can be tried with: those
    of a CTA by itself, which give and take what they should, and say where in arrays they go."""
    from wsemu.model.isa import OPERATIONS

    for fields in program.code.tolist():
        name = NAMES[fields[0]]
        if OPERATIONS[name].kind != "async":
            continue
        loose = {"mbarrier.arrive": RELAXED | REMOTE, "mbarrier.wait": WAIT_RELAXED}.get(
            name.removesuffix(".parity"), REMOTE if name.endswith("_tx") else 0
        )
        if not name.startswith(_FOLLOWED) or fields[7] & loose:
            return False
    return "window" not in program.specials


def judged(bound: Bound, ordered: frozenset[int], orders: Iterable[tuple[Ask, ...]]) -> _Judged | None:
    """What an engine finds in some orders, with the first one that fails; None where nothing does."""
    tried: list[tuple[Ask, ...]] = []
    for order in sorted(orders, key=len, reverse=True):
        if any(longer[: len(order)] == order for longer in tried):
            continue
        tried.append(order)
        findings = _findings(bound, ordered, order)
        if findings:
            return _Judged(findings, order)
    return None


class _Judged:
    """What was found in an order."""

    def __init__(self, findings: list[RawFinding], order: tuple[Ask, ...]) -> None:
        self.findings, self.order = findings, order


def _findings(bound: Bound, ordered: frozenset[int], order: tuple[Ask, ...]) -> list[RawFinding]:
    looking = Looking(races=True)
    while True:
        session = make_session(bound, ordered, frozenset(), looking)
        try:
            last = dict(enumerate(session.start()))
            for ask in order:
                last[ask.cta] = session.go(ask)
            suspects = session.suspects()
        finally:
            session.close()
        if not suspects or looking.suspects is not None:
            return [raw for moved in last.values() for raw in moved.findings]
        looking = Looking(True, suspects)


def made(bound: Bound, ordered: frozenset[int], logged: frozenset[int], order: tuple[Ask, ...]) -> tuple[Made, ...]:
    """All that happens in an order, accesses to shared memory included."""
    session = make_session(bound, ordered, logged, Looking(tells=True))
    try:
        found = [one for moved in session.start() for one in moved.made]
        for ask in order:
            found += session.go(ask).made
        return tuple(found)
    finally:
        session.close()
