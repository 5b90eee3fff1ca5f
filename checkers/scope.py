"""Report arrives and waits of CTA scope between two CTAs, which order nothing.

Detects: an arrive with `.release.cta` on an mbarrier of another CTA; a wait with `.acquire.cta` for a phase in which
another CTA has arrived.
Does not detect: fences and atomics whose scope is too narrow.  An omitted scope, which PTX reads as `.cta`, is not
reported, because compilers and libraries omit it.
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
    """Return the finding of an arrive or a wait of CTA scope."""
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
