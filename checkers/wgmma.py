"""Registers of `wgmma`, and the warps that execute it together.

Detects: accumulators, or registers of `a`, that are used between a `wgmma` and the wait that covers it; a `wgmma` whose
registers were used after the last `wgmma.fence`.  It also detects warps of a warpgroup that execute different `wgmma`
instructions, or none, and lanes that give a `wgmma` different operands.
Does not detect: moves of such registers, because compilers emit moves that the hardware does not execute; accesses to
shared memory, which `race`, `proxy` and `bounds` check.
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
    "wgmma-divergence": Detail(
        {"what": "0: no whole warpgroup, 1: none, 2: another, 3: unequal lanes, 4: other fences"}
    ),
}
CODES = tuple(DETAIL)
CURES = {
    "wgmma-register": Cures(210, ptx=("wgmma.wait_group.sync.aligned 0;",)),
    "wgmma-unfenced": Cures(220, ptx=("wgmma.fence.sync.aligned;",)),
    "wgmma-divergence": Cures(200),
}


def explain(raw: RawFinding, places: Places) -> Finding:
    """Return the finding of registers used too early, or of warps that do not execute the same `wgmma`."""
    explained = {"wgmma-register": _register, "wgmma-unfenced": _explain_unfenced, "wgmma-divergence": _divergence}
    return explained[raw.code](raw, places)


def fold(findings: list[RawFinding], places: Places, trace: Trace | None) -> list[RawFinding]:
    """Return one finding for each `wgmma` whose registers are used too early: the first in the source."""
    first: dict[int, int] = {}
    for raw in findings:
        if raw.code == "wgmma-register":
            first[raw.detail["mark"]] = min(raw.pc, first.get(raw.detail["mark"], raw.pc))
    return [raw for raw in findings if raw.code != "wgmma-register" or first[raw.detail["mark"]] == raw.pc]


def _first_marked(places: Places, operation: str, mark: int) -> int:
    """Return the first instruction that has a mark."""
    code = places.program.code
    return next(pc for pc in range(len(code)) if code[pc, 0] == OPCODE[operation] and int(code[pc, 6]) & mark)


def _register(raw: RawFinding, places: Places) -> Finding:
    who = words.who(raw, places)
    source = _first_marked(places, "wgmma.track", raw.detail["mark"]) - 1
    raw = replace(raw, other_pc=source, other_warp=raw.warp)
    return words.finding(
        raw, places, "registers of a `wgmma` are used while it is in flight", f"{who} uses its registers",
        "a `wgmma` owns its accumulators, and its registers of `a`, until a `wgmma.wait_group` covers its group",
        (
        "add `wgmma.commit_group` after it, and before this use a `wgmma.wait_group` that leaves fewer groups in "
        "flight"
        ),
        "the `wgmma`",
    )  # fmt: skip


def _explain_unfenced(raw: RawFinding, places: Places) -> Finding:
    return words.finding(
        raw, places, "a `wgmma` uses registers without a `wgmma.fence` after their last use",
        f"by {words.who(raw, places)}",
        "only consecutive `wgmma` of one shape on the same accumulators need no fence in between",
        "add `wgmma.fence.sync.aligned` before it, after the last use of its accumulators and registers of `a`",
    )  # fmt: skip


def _divergence(raw: RawFinding, places: Places) -> Finding:
    who, what = words.who(raw, places), raw.detail["what"]
    note = (
        "the four warps of a warpgroup must execute the same `wgmma` products, fences, commits and waits, in one "
        "order, with the same descriptors"
    )
    help_ = (
        "branch by whole warpgroups of 128 threads, and compute descriptors from values that are equal in all of them"
    )
    if what == 0:
        message = f"{who} executes a `wgmma`, and its warpgroup has fewer than four warps"
        return words.finding(raw, places, message, f"by {who}", note, "launch a multiple of 128 threads a CTA")
    if what == 3:
        message = f"lanes of {who} give a `wgmma` different descriptors, or differ in whether it accumulates"
        return words.finding(raw, places, message, f"by {who}", note, help_)
    other = words.other(raw, places)
    if what == 1:
        message = f"{who} executes a `wgmma`, but {other} of the same warpgroup executes none"
        return words.finding(raw, places, message, f"the last one of {who}", note, help_)
    if what == 4:
        message = f"{who} does not execute the same `wgmma` fences, commits and waits as {other} of its warpgroup"
        return words.finding(raw, places, message, f"the last one of {who}", note, help_, f"the last one of {other}")
    message = f"{who} does not execute the same `wgmma` as {other} of its warpgroup"
    return words.finding(raw, places, message, f"the last one of {who}", note, help_, f"the last one of {other}")
