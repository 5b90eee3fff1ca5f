"""Determine how many CTAs of a launch must be co-resident because they wait for each other, by running the launch.

CTAs start in order.  The next CTA starts only when all running CTAs just wait for memory to change, so that as few as
possible are resident.  A lane waits if its access changes nothing and the lane reaches the same access again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.model.data import NamedTuple

if TYPE_CHECKING:
    from wsemu.launch.explore.session import Ask, Session

MOST_STEPS = 4_000
"""maximum ordered accesses of the run"""


class Together(NamedTuple):
    """The number of CTAs that must be co-resident."""

    ctas: int
    waits: Ask | None
    """the lane that waits for the last of these CTAs to start"""


class _Run:
    """One run of a launch, CTA after CTA."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.steps = 0
        self.waiting: dict[int, tuple[bytes, bytes]] = {}
        """CTAs that could only wait, each with digests of its state and of the memory"""
        self.last: Ask | None = None

    def moves(self, cta: int) -> bool:
        """Return whether a CTA does anything but wait; raise StopIteration if that is unknown."""
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
        """Give each started CTA a turn; return whether at least one made progress."""
        moved = [self.moves(cta) for cta in range(begun)]
        return any(moved)


def together(session: Session) -> Together | None:
    """Return the number of CTAs that must be co-resident if the launch is correct in all interleavings; None if it is
    not found."""
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
