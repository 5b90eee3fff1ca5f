"""Accesses through different proxies without a proxy fence.

Detects: an asynchronous access that follows a plain access to the same bytes, ordered by barriers but without a proxy
fence in between.
Also detects: a tensor copy through a map that the launch changed, if no fences of the tensormap proxy order the change
before the copy.
Does not detect: a missing acquire of a map that an earlier operation wrote to global memory.
Reference: PTX ISA, "Causality order", "Proxy-preserved base causality order"; measured rules T5, W13.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.checkers import words
from wsemu.checkers.conflict import lane_range
from wsemu.model.isa import READ, SEGMENT_SHIFT, SHARED
from wsemu.model.outcome import Detail
from wsemu.model.remedy import Cures

if TYPE_CHECKING:
    from wsemu.evidence.places import Places
    from wsemu.model.finding import Finding
    from wsemu.model.outcome import RawFinding

_BOTH = {
    "address": "of the first byte in conflict",
    "kind": "of the later access",
    "other_kind": "of the earlier one",
    "size": "bytes",
    "interval": "of the later warp",
    "other_interval": "of the earlier one",
    "other_cta": "its CTA",
    "other_lane": "its lowest lane",
    "other_last": "its highest lane",
}
_ASYNC = {"async": "1: the later access is asynchronous", "other_async": "1: the earlier one is"}
DETAIL = {
    "proxy": Detail(_BOTH, _ASYNC),
    "proxy-war": Detail(_BOTH, _ASYNC),
    "tensormap-proxy": Detail(
        {"address": "of the map", "what": "0: its change was not released, 1: it was not acquired"},
        {"other_cta": "CTA that changed it, where that is another one"},
    ),
}
CODES = tuple(DETAIL)
CURES = {
    "proxy": Cures(370, "insert move unguard split call", inserts=("fence_proxy_async",), ptx=("fence.proxy.async;",)),
    "tensormap-proxy": Cures(380, "insert move unguard call", ptx=("fence.proxy.tensormap::generic.release.gpu;",)),
    "proxy-war": Cures(
        490, "insert move unguard split call", inserts=("fence_proxy_async",), ptx=("fence.proxy.async;",)
    ),
}
_TWO = "barriers order (1) before (2) only for plain accesses; bulk operations use the asynchronous proxy"
_OF_MAPS = (
    "barriers order (1) before (2) only for plain accesses; copies read their map through the tensormap proxy, which "
    "may use an older copy of the map until the change is released to this proxy and acquired at the map's address"
)
_OBSERVED = "measured: such a copy reads stale bytes on an H100, in spite of barriers"
_FORMAL = (
    "PTX requires a fence between the two proxies; tests on an H100 have not shown this failure, but kernels without "
    "the fence have given wrong values on other machines"
)


def explain(raw: RawFinding, places: Places) -> Finding:
    """Return the finding of a plain access and a later asynchronous access, or of a changed tensor map."""
    if raw.code == "tensormap-proxy":
        return _map(raw, places)
    d, noun = raw.detail, words.noun(places, raw.pc)
    at = words.quote_element(places, d["address"], raw.pc)
    space = places.space(d["address"] >> SEGMENT_SHIFT)
    later = "reads" if d["kind"] == READ else "writes"
    earlier = "read" if d["other_kind"] == READ else "written"
    lanes = lane_range(d["other_lane"], d["other_last"])
    first = f"{words.other(raw, places)}, {lanes}"
    return words.finding(
        raw, places,
        f"missing proxy fence: {words.other(raw, places)} has {earlier} {space} {at}, and the {noun} {later} it",
        f"{later} through the asynchronous proxy: {noun} issued by {words.who(raw, places)}",
        [_TWO, _FORMAL if raw.code == "proxy-war" else _OBSERVED if space == "shared" else ""],
        _fence(raw, places),
        f"{earlier} by {first}",
    )  # fmt: skip


def _map(raw: RawFinding, places: Places) -> Finding:
    """Return the finding about a tensor copy through a map that the launch changed."""
    noun, at = words.noun(places, raw.pc), words.quote_element(places, raw.detail["address"], raw.pc)
    lacks = ("released", "acquired")[raw.detail["what"]]
    return words.finding(
        raw, places, (
            f"the {noun} uses the tensor map {at}, but the change of the map was not {lacks} for the tensormap "
            "proxy"
            ),
        f"{noun} issued by {words.who(raw, places)}",
        [_OF_MAPS],
        (_release if lacks == "released" else _acquire)(raw, places),
        f"changed by {words.other(raw, places)}",
    )  # fmt: skip


def _release(raw: RawFinding, places: Places) -> str:
    return (
        f"add `fence.proxy.tensormap::generic.release.gpu` {places.after(raw.other_pc, raw.pc)}, in the threads of (1) "
        "and before the barrier; add an acquire with the address of the map after the barrier"
    )


def _acquire(raw: RawFinding, places: Places) -> str:
    return (
        "add `fence.proxy.tensormap::generic.acquire.gpu [map], 128` after the release and before "
        f"{places.near(raw.pc, raw.other_pc)}, in the issuing thread or in a thread of its CTA that it waits for"
    )


def _fence(raw: RawFinding, places: Places) -> str:
    """Return the help that adds a proxy fence, with the two locations that it may have."""
    shared = raw.detail["address"] >> SEGMENT_SHIFT == SHARED
    kind = "fence.proxy.async" if shared else "fence.proxy.async.global"
    fence = words.spell_instruction(places, raw.pc, kind)
    one, two = places.after(raw.other_pc, raw.pc), places.near(raw.pc, raw.other_pc)
    if raw.warp == raw.other_warp and raw.detail["other_cta"] == raw.cta and raw.other_pc == raw.pc:
        return f"add {fence} before {two}"
    return f"add {fence} {one}, in the threads of (1) and before the barrier; or in the issuing thread, before {two}"
