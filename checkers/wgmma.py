"""Registers of `wgmma`, and the warps that execute it together.

Detects: accumulators, or registers of `a`, that are used between a `wgmma` and the wait that covers it; a `wgmma` whose
registers were used since the last `wgmma.fence`.  It also detects warps of a warpgroup that execute different ones, or
none.
Does not detect: moves of such registers, which compilers write where the hardware has none; what a `wgmma` does to
shared memory: that is `race`, `proxy`, `bounds`.
Reference: PTX ISA, "wgmma.mma_async", "wgmma.fence", "wgmma.wait_group".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.checkers import words
from wsemu.model.data import replace
from wsemu.model.isa import OPCODE
from wsemu.model.outcome import Detail
from wsemu.model.remedy import Cures

if TYPE_CHECKING:
    from wsemu.evidence.places import Places
    from wsemu.model.finding import Finding
    from wsemu.model.outcome import RawFinding, Trace

DETAIL = {
    "wgmma-register": Detail({"mark": "the bit of its `wgmma.track`"}),
    "wgmma-unfenced": Detail({"mark": "the bit of its `wgmma.touch`"}),
    "wgmma-divergence": Detail({"what": "0: no whole warpgroup, 1: the other executes none, 2: another one"}),
}
CODES = tuple(DETAIL)
CURES = {
    "wgmma-register": Cures(210, ptx=("wgmma.wait_group.sync.aligned 0;",)),
    "wgmma-unfenced": Cures(220, ptx=("wgmma.fence.sync.aligned;",)),
    "wgmma-divergence": Cures(200),
}


def explain(raw: RawFinding, places: Places) -> Finding:
    """The finding of registers, or of warps apart."""
    explained = {"wgmma-register": _register, "wgmma-unfenced": _explain_unfenced, "wgmma-divergence": _divergence}
    return explained[raw.code](raw, places)


def fold(findings: list[RawFinding], places: Places, trace: Trace | None) -> list[RawFinding]:
    """One of each `wgmma` whose registers are used too early: the first in the text."""
    first: dict[int, int] = {}
    for raw in findings:
        if raw.code == "wgmma-register":
            first[raw.detail["mark"]] = min(raw.pc, first.get(raw.detail["mark"], raw.pc))
    return [raw for raw in findings if raw.code != "wgmma-register" or first[raw.detail["mark"]] == raw.pc]


def _first_marked(places: Places, operation: str, mark: int) -> int:
    """The first instruction with a mark."""
    code = places.program.code
    return next(pc for pc in range(len(code)) if code[pc, 0] == OPCODE[operation] and int(code[pc, 6]) & mark)


def _register(raw: RawFinding, places: Places) -> Finding:
    who = words.who(raw, places)
    source = _first_marked(places, "wgmma.track", raw.detail["mark"]) - 1
    raw = replace(raw, other_pc=source, other_warp=raw.warp)
    return words.finding(
        raw, places, "registers of a `wgmma` are used while it is under way", f"{who} uses its registers",
        "accumulators, and registers of `a`, belong to it until a `wgmma.wait_group` covers its group",
        "`wgmma.commit_group` after it, and a `wgmma.wait_group` before this that leaves fewer groups under way",
        "the `wgmma`",
    )  # fmt: skip


def _explain_unfenced(raw: RawFinding, places: Places) -> Finding:
    return words.finding(
        raw, places, "a `wgmma` uses registers that no `wgmma.fence` has ordered since they were used last",
        f"by {words.who(raw, places)}",
        "accumulators of `wgmma` of one shape, one after the other, need none between them; all else does",
        "`wgmma.fence.sync.aligned` after the last use of its accumulators and registers of `a`, before it",
    )  # fmt: skip


def _divergence(raw: RawFinding, places: Places) -> Finding:
    who, what = words.who(raw, places), raw.detail["what"]
    note = "the four warps of a warpgroup must execute the same `wgmma`, in one order, with the same descriptors"
    help_ = "branch by whole warpgroups of 128 threads, and compute descriptors of what all of them have"
    if what == 0:
        message = f"{who} executes a `wgmma`, and its warpgroup has fewer than four warps"
        return words.finding(raw, places, message, f"by {who}", note, "launch a multiple of 128 threads a CTA")
    other = words.other(raw, places)
    if what == 1:
        message = f"{who} executes a `wgmma`, {other} of the same warpgroup executes none"
        return words.finding(raw, places, message, f"the last one of {who}", note, help_)
    message = f"{who} does not execute the same `wgmma` as {other} of its warpgroup"
    return words.finding(raw, places, message, f"the last one of {who}", note, help_, f"the last one of {other}")
