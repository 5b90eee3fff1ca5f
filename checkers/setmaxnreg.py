"""Registers that warps give and take.

Detects: counts outside 24-256 or no multiple of 8; more given than there are, fewer asked for; parts of a warp.
Does not detect: that the pool is too small: that is a deadlock.
Reference: PTX ISA, "setmaxnreg"; measured rule L2.
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
    "setmaxnreg": Detail({"count": "registers a thread", "what": "0: the count, 1: the direction, 2: a part of a warp, 3: counts differ", "present": "registers a thread that the warp has"}),
}  # fmt: skip
CODES = tuple(DETAIL)


def explain(raw: RawFinding, places: Places) -> Finding:
    """The finding of an operation."""
    text = _ALL[raw.code].meaning
    site = places.site(raw.pc, text, cta=raw.cta, warp=raw.warp)
    return Finding(code=raw.code, message=text, sites=[site, *places.callers(raw.pc)], count=raw.count)
