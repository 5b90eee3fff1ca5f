"""Describe the effects of an undefined value in a finding; a helper, not a checker of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.evidence.places import lanes_text
from wsemu.model.undefined import SINKS, Sink

if TYPE_CHECKING:
    from wsemu.evidence.places import Places
    from wsemu.model.finding import Site
    from wsemu.model.outcome import RawFinding

FIELDS = {
    "sink": "what the value reaches, of `undefined.SINKS`",
    "sink_pc": "the instruction there",
    "sink_cta": "its CTA",
    "sink_warp": "its warp",
    "sink_lane": "its lane",
}
"""fields of a finding whose value was followed to something observable"""
_TEXTS: dict[Sink, str] = {
    "store": "is stored to {array}",
    "branch": "decides this branch",
    "exit": "decides which lanes exit",
    "guard": "decides whether this is executed",
    "address": "is part of the address",
    "member mask": "is the member mask",
    "barrier operand": "is an operand of this barrier",
    "operand": "is an operand of this asynchronous operation",
    "atomic": "goes into an atomic on {array}",
    "copy": "is copied from here",
    "print": "is printed",
}


def is_reached(raw: RawFinding) -> bool:
    """Return whether the value of a finding is known to reach something observable."""
    return "sink" in raw.detail


def sites(raw: RawFinding, places: Places) -> list[Site]:
    """Return the location that an undefined value reaches; none if it is unknown, or is the location of the finding."""
    if not is_reached(raw) or raw.detail["sink_pc"] == raw.pc:
        return []
    d = raw.detail
    who = places.who(d["sink_cta"], d["sink_warp"])
    label = f"{text(raw, places)}: {who}, {lanes_text(1 << d['sink_lane'])}"
    return [places.site(d["sink_pc"], label, cta=d["sink_cta"], warp=d["sink_warp"])]


def text(raw: RawFinding, places: Places) -> str:
    """Return the effect of an undefined value where it is observable, such as `the undefined value decides this
    branch`."""
    sink = SINKS[raw.detail["sink"]]
    return f"the undefined value {_TEXTS[sink].format(array=places.array_name(raw.detail['sink_pc']))}"
