"""Arrives and waits of CTA scope between two CTAs: they order nothing.

Detects: an arrive on an mbarrier of another CTA with `.release.cta`; a wait with `.acquire.cta` for a phase that
another CTA has arrived in.
Does not detect: fences and atomics of a scope that is too narrow.  If no scope is written, which PTX reads as `.cta`,
nothing is reported: compilers and libraries omit it.
Reference: PTX ISA, "Scope", "Morally strong operations"; NVIDIA/cutlass #3643.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.checkers import words
from wsemu.model.outcome import Detail
from wsemu.model.remedy import Cures

if TYPE_CHECKING:
    from wsemu.evidence.places import Places
    from wsemu.model.finding import Finding
    from wsemu.model.outcome import RawFinding

DETAIL = {
    "scope": Detail({
        "address": "of the mbarrier", "what": "0: an arrive on another CTA's, 1: a wait for an arrive of another CTA",
    }),
}  # fmt: skip
CODES = tuple(DETAIL)
CURES = {
    "scope": Cures(390, "argument call insert"),
}


def explain(raw: RawFinding, places: Places) -> Finding:
    """The finding of an arrive, or of a wait."""
    name = words.mbarrier(raw, places)
    if raw.detail["what"] == 0:
        return words.finding(
            raw, places, f"an arrive of CTA scope on {name} of another CTA",
            f"{words.who(raw, places)} arrives with `.release.cta`",
            ["threads that wait there are outside of this scope: they may not see what was done before the arrive"],
            "write `.release.cluster`",
        )  # fmt: skip
    return words.finding(
        raw, places, f"a wait of CTA scope on {name} for an arrive of another CTA",
        f"{words.who(raw, places)} waits with `.acquire.cta`",
        ["the thread that arrives is outside of this scope: what was done before (1) may not be seen after (2)"],
        "write `.acquire.cluster`",
        f"{words.other(raw, places)} arrives",
    )  # fmt: skip
