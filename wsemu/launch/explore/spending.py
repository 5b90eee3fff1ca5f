"""The steps of a session, which it draws from the account of its launch (`Account`), as all methods do."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wsemu.model.bound import Account
    from wsemu.proof.threads import Made

STEP = 1 / 3_000
"""effort of a step: a thread performs an ordered access, and its CTA continues to the next ones"""
PRICE = 1 / 2
"""effort of a method that uses up its own limit, if it does not run CTAs"""
EVENTS = 50
"""number of events for which a step counts once more, because it takes longer"""


class Spending:
    """The part of a session that counts its steps."""

    account: Account
    weight: float
    """number of steps that a step counts as, because it takes longer"""

    def spend(self, steps: float, made: list[Made] | None = None) -> None:
        """Draw a number of steps from the account, the last of which has these events."""
        self.account.spend((steps + len(made or ()) / EVENTS) * self.weight * STEP)

    @property
    def is_spent(self) -> bool:
        return self.account.is_spent
