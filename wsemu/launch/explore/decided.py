"""What a method says of all orders of a launch, and what it is given."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Protocol

from wsemu.evidence.places import Places
from wsemu.launch.explore.session import Ask, Session
from wsemu.model.data import NamedTuple
from wsemu.model.finding import Finding, Residency
from wsemu.proof.threads import Knowledge

if TYPE_CHECKING:
    from collections.abc import Callable

    from wsemu.model.bound import Bound


class Decided(NamedTuple):
    """What trying all orders says of a launch."""

    proven: bool = False
    findings: tuple[Finding, ...] = ()
    reasons: tuple[str, ...] = ()
    """why nothing is decided"""
    notes: tuple[str, ...] = ()
    how: str = ""
    """of all orders, by what they were told apart"""
    needed: Residency | None = None
    """the CTAs that wait for each other"""


class Case(NamedTuple):
    """What a method is given of a launch whose arrays are as before it."""

    bound: Bound
    places: Places
    session: Session
    apart: Callable[[int, list[Ask]], bool]
    """whether lanes of a warp of a CTA, as it stands, may come to ordered accesses in an order that is not tried"""
    begin: functools.partial[Knowledge]
    """what begins what is known of all threads"""


class Method(Protocol):
    """A method that decides launches without trying each order; it only ever proves.  None: it decides nothing here."""

    def __call__(self, case: Case) -> Decided | None:
        """Decide a launch; the arrays are left as some order leaves them."""
