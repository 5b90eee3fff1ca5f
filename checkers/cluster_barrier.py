"""Misuse of the barrier of a cluster.

Detects: a thread that arrives twice without a wait in between; a thread that waits without having arrived; an
`.aligned` operation that only part of a warp executes.
Does not detect: threads that never arrive; that is `deadlock`.
Reference: PTX ISA, "barrier.cluster"; measured rule L3.
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
    "cluster-barrier": Detail({
        "what": "0: it arrives twice, 1: it waits without having arrived, 2: an aligned form by a part of a warp; at "
        "the barrier of the grid 3: its CTA arrives twice, 4: it waits without an arrive of its CTA",
    }),
}  # fmt: skip
CODES = tuple(DETAIL)
CURES = {
    "cluster-barrier": Cures(190, "delete call guard move unguard split insert"),
}
_SAID = (
    (
        "second arrive at the cluster barrier without a wait in between",
        "undefined in PTX; this run ignores the second arrive",
        "wait before arriving again, or remove one of the arrives",
    ),
    (
        "wait at the cluster barrier without an arrive",
        "undefined in PTX; this run does not wait",
        "arrive once before each wait",
    ),
    (
        "only part of a warp executes an aligned operation of the cluster barrier",
        "`.aligned` requires that all threads of the warp execute it",
        "move it out of the branch, or remove `.aligned`",
    ),
    (
        "second arrive of the CTA at the grid barrier without a wait in between",
        "on a GPU it counts for another CTA, so the barrier opens too early; this run ignores it",
        "arrive once before each wait, in one thread of each CTA",
    ),
    (
        "wait at the grid barrier before its CTA has arrived",
        "the wait needs the value that an arrive returns; this run does not wait",
        "arrive in a thread of the CTA before each wait",
    ),
)
"""message, note and help for each value of the finding's `what`"""


def explain(raw: RawFinding, places: Places) -> Finding:
    """Return the finding of a wrong arrive or wait."""
    message, note, help_ = _SAID[raw.detail["what"]]
    return words.finding(raw, places, message, f"executed by {words.who(raw, places)}", [note], help_)
