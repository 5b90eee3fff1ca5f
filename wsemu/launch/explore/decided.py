"""The input and the result of a method that decides all orders of a launch."""

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
    """The result of a method for a launch."""

    proven: bool = False
    findings: tuple[Finding, ...] = ()
    reasons: tuple[str, ...] = ()
    """the causes of an `incomplete` verdict"""
    notes: tuple[str, ...] = ()
    how: str = ""
    """the words for the method in a report"""
    needed: Residency | None = None
    """the CTAs that wait for each other"""
    besides: frozenset[int] | None = None
    """instructions that some other interleaving executes and the initial run does not; None: unknown"""
    loaded: frozenset[tuple[int, int]] | None = None
    """the address ranges of the bytes that strong loads may read in some interleaving; None: unknown"""
    defined: bool = False
    """true if undefined values reach nothing in any interleaving"""
    is_certain: bool = False
    """true if findings hold although strong accesses counted as plain ones"""


class Case(NamedTuple):
    """The input of a method: a launch whose arrays hold their first contents."""

    bound: Bound
    places: Places
    session: Session
    apart: Callable[[int, list[Ask]], bool]
    """returns whether lanes of a warp of a CTA may reach ordered accesses in an order that is not tried"""
    begin: functools.partial[Knowledge]
    """creates the clocks of all threads"""


class Method(Protocol):
    """A method that proves launches without trying each order."""

    def __call__(self, case: Case) -> Decided | None:
        """Return the result, or None if the method does not apply.  The arrays have the final contents of some
        interleaving."""
