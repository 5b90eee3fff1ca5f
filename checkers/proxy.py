"""Accesses through two proxies.

Detects: asynchronous accesses after plain ones, ordered by barriers, that no proxy fence orders.
Does not detect: fences of the tensormap proxy.
Reference: PTX ISA, "Causality order", "Proxy-preserved base causality order"; measured rules T5, W13.
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
    "proxy": Detail({"address": "of the first byte in conflict", "kind": "of the later access", "other_kind": "of the earlier one", "size": "bytes", "interval": "of the later warp", "other_interval": "of the earlier one", "other_cta": "its CTA", "other_lane": "its lowest lane", "other_last": "its highest lane"}),
    "proxy-war": Detail({"address": "of the first byte in conflict", "kind": "of the later access", "other_kind": "of the earlier one", "size": "bytes", "interval": "of the later warp", "other_interval": "of the earlier one", "other_cta": "its CTA", "other_lane": "its lowest lane", "other_last": "its highest lane"}),
}  # fmt: skip
CODES = tuple(DETAIL)


def explain(raw: RawFinding, places: Places) -> Finding:
    """The finding of an operation."""
    text = _ALL[raw.code].meaning
    site = places.site(raw.pc, text, cta=raw.cta, warp=raw.warp)
    return Finding(code=raw.code, message=text, sites=[site, *places.callers(raw.pc)], count=raw.count)
