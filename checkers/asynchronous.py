"""Asynchronous operations as such.

Detects: operations that nobody waits for before the CTA ends; sizes that a copy cannot have.
Does not detect: what they do to memory; that is `race`, `bounds`, `initialised`.
Reference: PTX ISA, "cp.async.bulk", "cp.async"; measured rules T1, C1.
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
    "async-outlives-cta": Detail({"address": "that it writes, or for a store reads", "bytes": "of it", "what": "0: it writes there, 1: it reads there"}),
    "copy-size": Detail({"bytes": "of it", "what": "0: no multiple of 16, 1: more than the instruction copies"}),
}  # fmt: skip
CODES = tuple(DETAIL)


def explain(raw: RawFinding, places: Places) -> Finding:
    """The finding of an operation."""
    text = _ALL[raw.code].meaning
    site = places.site(raw.pc, text, cta=raw.cta, warp=raw.warp)
    return Finding(code=raw.code, message=text, sites=[site, *places.callers(raw.pc)], count=raw.count)
