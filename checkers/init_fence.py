"""Fences after the initialization of mbarriers.

Detects: bulk and tensor copies that credit an mbarrier whose initialization is not followed by a fence.  The fence may
be a `fence.mbarrier_init` of the initializing thread, or a proxy fence.
Does not detect: arrivals and waits that may come before the initialization; `mbarrier` reports these.
Reference: CUDA Programming Guide, "Using TMA"; PTX ISA, "membar, fence": `fence.mbarrier_init`.
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

DETAIL = {"mbarrier-unfenced": Detail({"address": "of the mbarrier"})}
CODES = tuple(DETAIL)
CURES = {
    "mbarrier-unfenced": Cures(
        500,
        "insert",
        inserts=("fence_mbarrier_init", "fence_proxy_async"),
        ptx=("fence.mbarrier_init.release.cluster;", "fence.proxy.async;"),
    ),
}
_UNFENCED = (
    "the initialization is ordered before (2), but not for the asynchronous proxy; the CUDA Programming Guide and "
    "CUTLASS put a fence between the two, no GPU was seen to need it"
)


def explain(raw: RawFinding, places: Places) -> Finding:
    """Return the finding of a copy that credits an mbarrier without a fence after its initialization."""
    noun, name = words.noun(places, raw.pc), words.mbarrier(raw, places)
    init, proxy = (
        words.spell_instruction(places, raw.pc, f"fence.{kind}") for kind in ("mbarrier_init", "proxy.async")
    )
    return words.finding(
        raw, places, f"{name}: the {noun} credits it without a fence after its initialization",
        f"{noun} issued by {words.who(raw, places)}",
        [_UNFENCED],
        f"add {init} (or {proxy}) {places.after(raw.other_pc, raw.pc)}, in the thread of (1)",
        f"initialized by {words.other(raw, places)}",
    )  # fmt: skip
