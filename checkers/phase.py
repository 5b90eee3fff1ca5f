"""The phases of mbarriers.

Detects: operations that another schedule would let meet another phase (rules R1-R3); arrivals whose phase before nobody has seen complete; expectations that nothing waits for (R5); bytes that are missing or too many at the end (R6).
Does not detect: values that depend on what a poll answers; the verdict says `incomplete` there.
Reference: PTX ISA, "Phase of the mbarrier object"; the one-run theorem in docs/semantics.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.model.codes import CODES as _ALL
from wsemu.model.finding import Finding
from wsemu.model.outcome import Detail

if TYPE_CHECKING:
    from wsemu.evidence.places import Places
    from wsemu.model.outcome import RawFinding

DETAIL = {
    "phase-alias": Detail({"address": "of the mbarrier", "phase": "that is open, from 0", "rule": "1: an arrival, expectation or copy that can come early, 2: a wait that can, 3: a wait that can come late, 4: a token of an older phase"}),
    "phase-unobserved": Detail({"address": "of the mbarrier", "phase": "that is open, from 0"}),
    "uncovered-expectation": Detail({"address": "of the mbarrier", "phase": "that is open, from 0", "what": "0: bytes, 1: the arrival of asynchronous copies"}),
    "tx-mismatch": Detail({"address": "of the mbarrier", "phase": "that is open, from 0", "bytes": "that are missing; below 0: too many", "pending": "arrivals that are missing"}),
    "dangling-phase": Detail({"address": "of the mbarrier", "phase": "that is open, from 0", "pending": "arrivals that are missing", "expected": "arrivals of a phase"}),
}  # fmt: skip
CODES = tuple(DETAIL)


def explain(raw: RawFinding, places: Places) -> Finding:
    """The finding of an operation."""
    text = _ALL[raw.code].meaning
    site = places.site(raw.pc, text, cta=raw.cta, warp=raw.warp)
    return Finding(code=raw.code, message=text, sites=[site, *places.callers(raw.pc)], count=raw.count)
