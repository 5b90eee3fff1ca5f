"""Number of CTAs of a launch that must be co-resident because they wait for each other, found by running it.

CTAs start one after another, in order, each only when no running one can do more than wait for memory to change: so as
few as possible are live.  A lane waits if its access changes nothing, and leads back to its position.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.model.data import NamedTuple

if TYPE_CHECKING:
    from wsemu.launch.explore.session import Ask, Session

MOST_STEPS = 4_000
"""ordered accesses that are made to find out"""


class Together(NamedTuple):
    """So many CTAs have to run at once."""

    ctas: int
    waits: Ask | None
    """lane that waits for the last one of them to begin"""


class _Run:
    """One run of a launch, a CTA after the other."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.steps = 0
        self.waiting: dict[int, tuple[bytes, bytes]] = {}
        """CTAs that could only wait: what they were, and memory"""
        self.last: Ask | None = None

    def moves(self, cta: int) -> bool:
        """Return whether a CTA does anything else than wait; StopIteration if that is unknown."""
        session = self.session
        before = session.digest(cta), session.digest_memory()
        if self.waiting.get(cta) == before:
            return False
        for ask in session.asks(cta):
            self.steps += 1
            if session.go(ask).status not in ("stands", "done") or self.steps > MOST_STEPS:
                raise StopIteration
            if (session.digest(cta), session.digest_memory()) != before:
                return True
            self.last = ask
        self.waiting[cta] = before
        return False

    def round(self, begun: int) -> bool:
        """Return whether one of the CTAs that have begun moves; each has its turn."""
        moved = [self.moves(cta) for cta in range(begun)]
        return any(moved)


def together(session: Session) -> Together | None:
    """The CTAs that have to run at once, if all orders of the launch are right; None where that is not found."""
    if any(moved.status not in ("stands", "done") for moved in session.start()):
        return None
    run = _Run(session)
    found, begun, waits = 1, 1, None
    try:
        while True:
            while run.round(begun):
                pass
            if begun == session.ctas:
                return Together(found, waits)
            begun += 1
            alive = sum(1 for cta in range(begun) if session.alive(cta) or cta == begun - 1)
            if alive > found:
                found, waits = alive, run.last
    except StopIteration:
        return None
