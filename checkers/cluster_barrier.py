"""Misuse of the barrier of a cluster.

Detects: a thread that arrives twice without waiting between; one that waits without having arrived; aligned forms that
a part of a warp executes.
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
        "a second arrive at the cluster's barrier, without a wait between",
        "PTX leaves it undefined; here the second one counts for nothing",
        "wait before it arrives again, or leave one of the arrives out",
    ),
    (
        "a wait at the cluster's barrier without an arrive",
        "PTX leaves it undefined; here it does not wait",
        "arrive once before each wait",
    ),
    (
        "an aligned operation at the cluster's barrier by a part of a warp",
        "`.aligned` promises that all threads of the warp execute it",
        "move it out of the branch, or leave `.aligned` out",
    ),
    (
        "a second arrive of the CTA at the grid's barrier, without a wait between",
        "it counts for another CTA, and the barrier opens too early; here it counts for nothing",
        "let one thread of each CTA arrive once before each wait",
    ),
    (
        "a wait at the grid's barrier before its CTA has arrived there",
        "it compares the barrier with what no arrive has told it; here it does not wait",
        "let a thread of the CTA arrive before each wait",
    ),
)
"""by `what`: what happened, a note, the help"""


def explain(raw: RawFinding, places: Places) -> Finding:
    """The finding of an arrive or a wait."""
    message, note, help_ = _SAID[raw.detail["what"]]
    return words.finding(raw, places, message, f"executed by {words.who(raw, places)}", [note], help_)
