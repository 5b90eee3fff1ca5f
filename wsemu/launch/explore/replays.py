"""Judge accesses to shared memory and mbarriers by replays, if control flow depends on atomics and copies run
asynchronously.

The behavior of a CTA depends on other CTAs only through the results of its strong accesses to arrays.  The search
(`search.py`) distinguishes states by the history of each CTA: its barriers, phases, copies and accesses to shared
memory, in order.  So it finds each possible history of a CTA.  For each one, an engine runs an interleaving with this
history, with all checks.  Accesses to arrays are judged in the search itself.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.launch.explore.session import TRYING, Looking
from wsemu.launch.explore.sessions import make_session
from wsemu.model.data import NamedTuple
from wsemu.model.isa import NAMES, RELAXED, REMOTE, WAIT_RELAXED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from wsemu.launch.explore.session import Ask, Moved, Session
    from wsemu.model.bound import Bound
    from wsemu.model.outcome import RawFinding
    from wsemu.model.program import Program
    from wsemu.proof.threads import Made

_FOLLOWED = (
    "mbarrier.", "cp.async.", "bulk.load", "bulk.store", "bulk.reduce", "bulk.commit", "bulk.wait", "bulk.prefetch",
    "bulk.zero", "setmaxnreg.",
)  # fmt: skip


def supports_asynchronous(program: Program) -> bool:
    """Return whether the exploration of atomics supports all asynchronous operations of a program.  They must belong to
    one CTA, release and acquire with default semantics, and declare the ranges of arrays that they access."""
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


class DiffersError(Exception):
    """A replay differs from the run of the search."""


class Judged(NamedTuple):
    """An interleaving, and the findings of an engine in it."""

    findings: list[RawFinding]
    order: tuple[Ask, ...]


class Replays(NamedTuple):
    """Replays of a launch in given interleavings of its accesses `ordered`, each from the same initial arrays."""

    bound: Bound
    ordered: frozenset[int]
    logged: frozenset[int]
    """instructions whose executions belong to histories"""
    initial: Sequence[Any]
    """contents of the arrays before the launch"""

    def judge_orders(
        self, ended: Mapping[bytes, tuple[Ask, ...]], matters: Callable[[RawFinding], bool]
    ) -> Judged | None:
        """Replay interleavings with these histories, and return the findings of an engine in the first one that fails;
        None if none does.

        Raise DiffersError if a replay differs from the run of the search.
        """
        orders: dict[tuple[Ask, ...], set[bytes]] = {}
        for history, order in sorted(ended.items(), key=lambda entry: len(entry[1]), reverse=True):
            longer = next((other for other in orders if other[: len(order)] == order), order)
            orders.setdefault(longer, set()).add(history)
        for order, histories in orders.items():
            findings = self._findings(order, histories, matters)
            if findings:
                return Judged(findings, order)
        return None

    def replay_order(self, order: tuple[Ask, ...]) -> tuple[Made, ...]:
        """Return all events of an interleaving, including accesses to shared memory."""
        with self._session(Looking(tells=True), self.logged) as session:
            return tuple(one for moved in _moves(session, order) for one in moved.made)

    def _findings(
        self, order: tuple[Ask, ...], histories: set[bytes], matters: Callable[[RawFinding], bool]
    ) -> list[RawFinding]:
        with self._session(TRYING, self.logged) as session:
            wanted = _last_moves(_moves(session, order), order, session.ctas)
            if not histories <= {session.history(cta) for cta in range(session.ctas)}:
                raise DiffersError
            left = [data.copy() for data, _ in self.bound.segments]
        looking = Looking(races=True)
        while True:
            with self._session(looking, frozenset()) as session:
                moves = _moves(session, order)
                suspects = session.suspects()
                last = _last_moves(moves, order, session.ctas)
                same = [moved.status for moved in last] == [moved.status for moved in wanted]
                same &= all(np.array_equal(a, b) for a, (b, _) in zip(left, self.bound.segments, strict=True))
            if not suspects or looking.suspects is not None:
                break
            looking = Looking(True, suspects)
        findings = [raw for moved in last for raw in moved.findings if matters(raw)]
        if not same and not findings:
            raise DiffersError
        return findings

    @contextmanager
    def _session(self, looking: Looking, logged: frozenset[int]) -> Iterator[Session]:
        """Yield a session of the launch with its initial arrays."""
        for (data, _), kept in zip(self.bound.segments, self.initial, strict=True):
            if data.flags.writeable:
                data[:] = kept
        session = make_session(self.bound, self.ordered, logged, looking)
        try:
            yield session
        finally:
            session.close()


def _moves(session: Session, order: tuple[Ask, ...]) -> list[Moved]:
    """Return the moves of the CTAs: first the start of each CTA, then those of the interleaving in order."""
    return [*session.start(), *(session.go(ask) for ask in order)]


def _last_moves(moves: Sequence[Moved], order: tuple[Ask, ...], ctas: int) -> list[Moved]:
    """Return the last move of each CTA, with its state and all its findings."""
    movers = [*range(ctas), *(ask.cta for ask in order)]
    return [*dict(zip(movers, moves, strict=True)).values()]
