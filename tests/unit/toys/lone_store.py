"""`lone-store`: a store that a single lane of its warp executes.  A toy, by which tests show what a checker takes.

Detects: every execution of a store, to any memory, by one lane.
Does not detect: whether more lanes could have stored.
Reference: none; this is no fault.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.evidence.places import lanes_text
from wsemu.evidence.readings import culprit
from wsemu.model.finding import Finding
from wsemu.model.outcome import Detail

if TYPE_CHECKING:
    from wsemu.evidence.places import Places
    from wsemu.model.outcome import RawFinding, Trace

CODES = ("lone-store",)
DETAIL = {"lone-store": Detail({"interval": "of the warp, in which it stores"})}
TRACED = True


def explain(raw: RawFinding, places: Places, trace: Trace | None = None) -> Finding:
    """The finding of a store by one lane; a trace tells how often it is executed at all."""
    who = f"{lanes_text(raw.lanes)} of {places.who(raw.cta, raw.warp)}"
    executed = 0 if trace is None else sum(event.pc == raw.pc for event in trace.events)
    return Finding(
        code=raw.code,
        message=f"{raw.count} of {executed} executions of this store are by one lane",
        sites=[places.site(raw.pc, f"stored by {who}", cta=raw.cta, warp=raw.warp)],
        help="let several lanes store",
        count=raw.count,
        steps=[culprit(raw, places)],
    )
