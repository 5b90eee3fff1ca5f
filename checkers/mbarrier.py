"""Misuse of mbarriers.

Detects: operations on what is no mbarrier, or may be none yet; a second one in its place; accesses to its bytes; its end
while others may use it; counts out of range; arrivals beyond what its phase waits for.
Does not detect: what a phase means; that is `phase`.
Reference: PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier"; measured rules M1-M22.
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
    "mbarrier-uninitialized": Detail({"address": "of the mbarrier", "ordered": "1: it is one in this run, at other_pc, but nothing orders that before", "dead": "1: it was one until other_pc"}),
    "mbarrier-reinit": Detail({"address": "of the mbarrier"}),
    "mbarrier-clobber": Detail({"address": "of the mbarrier", "at": "byte that is accessed", "kind": "of the access", "size": "bytes", "asynchronous": "1: by an asynchronous copy"}),
    "mbarrier-lifetime": Detail({"address": "of the mbarrier", "phase": "that is open, from 0", "what": "0: no order after the use at other_pc, 1: bytes or arrivals are outstanding"}),
    "mbarrier-range": Detail({"address": "of the mbarrier", "value": "that it cannot hold", "what": "0: count of init, 1: arrivals, 2: bytes of an operation, 3: bytes in all, 4: an arrival that must not complete its phase does"}),
    "over-arrival": Detail({"address": "of the mbarrier", "phase": "that is open, from 0", "pending": "arrivals that were missing", "count": "that came"}),
}  # fmt: skip
CODES = tuple(DETAIL)


def explain(raw: RawFinding, places: Places) -> Finding:
    """The finding of an operation."""
    text = _ALL[raw.code].meaning
    site = places.site(raw.pc, text, cta=raw.cta, warp=raw.warp)
    return Finding(code=raw.code, message=text, sites=[site, *places.callers(raw.pc)], count=raw.count)
