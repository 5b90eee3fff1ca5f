"""`intra-warp-race`: conflicting accesses of two lanes of one warp that nothing orders.

Detects: two lanes of one store that write different values to a byte.  Unless the launch is checked with
`lockstep=True`, it also detects accesses of two lanes that overlap, if at least one is a write and not both are atomic.
Two accesses are ordered if both lanes participate in an operation between them: `syncwarp`, shuffle, vote, match,
`syncthreads`, a sync on a named barrier.  An arrive orders nothing between lanes; a sync by a part of a warp orders
only these lanes.  A lane that has exited is ordered before the lanes that name it in their mask.
Does not detect: a conflict with an access that a later conflicting access has replaced in the shadow memory.
Reference: CUDA C++ Programming Guide, "Independent Thread Scheduling" and "Synchronization Functions".  The compiled
test is `lane_order.unordered_lanes`; `shadow.lanes_know` decides when to run it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.checkers.conflict import (
    ACCESSES,
    LANES_APART,
    UNCOMPARED,
    Conflict,
    conflict,
    lane_range,
    step,
    uncompared_note,
)
from wsemu.checkers.race_help import update_help
from wsemu.evidence.places import lanes_text
from wsemu.evidence.readings import culprit, reading
from wsemu.evidence.schedule import Access
from wsemu.model.arch import ARCHS
from wsemu.model.finding import Finding
from wsemu.model.isa import SEGMENT_SHIFT
from wsemu.model.outcome import Detail
from wsemu.model.remedy import Cures

if TYPE_CHECKING:
    from wsemu.evidence.places import Places
    from wsemu.evidence.schedule import Witness
    from wsemu.model.finding import Step
    from wsemu.model.outcome import RawFinding, Trace

CODES = ("intra-warp-race",)
CURES = {
    "intra-warp-race": Cures(
        410,
        "insert move call argument constant split atomic unguard index return guard compare delete swap",
        inserts=("syncwarp", "syncthreads"),
        ptx=("bar.warp.sync -1;", "bar.sync 0;"),
    ),
}
DETAIL = {"intra-warp-race": Detail({**ACCESSES, **LANES_APART}, UNCOMPARED)}
"""fields of a finding: if two lanes of one instruction store different values, other_pc is -1 and other_lane is the
lane whose value remains"""
TRACED = True
_INDEPENDENT = (
    "lanes of a warp execute independently on sm_70 and later; use `--lockstep` (`lockstep=True`) for older GPUs"
)
_OLDER = (
    "`--arch {}` only chooses limits and costs; with `--lockstep` (`lockstep=True`), the lanes of a warp also run "
    "together, as they do there: use it for kernels whose compiler keeps the order of these accesses (`volatile`)"
)


def explain(raw: RawFinding, places: Places, trace: Trace | None = None) -> Finding:
    """Return the finding of two lanes of a warp; a trace adds their iterations."""
    witness = None if trace is None else reading(places, trace, {raw.cta})
    if raw.other_pc < 0:
        return _one_store(raw, places, witness)
    found = conflict(raw, places, witness)
    earlier = lane_range(raw.detail["other_lane"], raw.detail["other_last"])
    between = f"{lanes_text(raw.lanes)} and {earlier}"
    return Finding(
        code=raw.code,
        message=found.title(" between lanes of a warp"),
        sites=found.sites(f"{earlier} of {found.first.who}", f"{lanes_text(raw.lanes)} of {found.second.who}"),
        notes=[
            f"{found.overlap()}; no warp-level synchronization orders {between}",
            _lanes(places.outcome.arch),
            *uncompared_note(raw),
        ],
        help=_help(found, witness),
        count=raw.count,
        steps=_steps(found, witness),
    )


def _lanes(arch: str) -> str:
    """Return the note on how the lanes of a warp run, with the option that changes it."""
    return _INDEPENDENT if ARCHS[arch].independent else _OLDER.format(arch)


def _steps(found: Conflict, witness: Witness | None) -> list[Step]:
    """Return (1) and (2) in the order of this run, because the schedule does not order lanes of one warp."""
    if witness is None:
        return []
    access, at = found.second.access, found.first.position
    before = witness.before((access.cta, access.warp, access.interval))
    free = not (witness.places.depends_on_races() or witness.asynchronous)
    if not free or witness.count_in_order(before, [(access.cta, access.warp)]) is None:
        before = [n for n in witness.run_until((found.second.position or 0) - 1) if n != at]
    early, late = ([n for n in before if (at is None or n < at) == first] for first in (True, False))
    one, two = (step(found, witness, number) for number in (1, 2))
    return [*witness.steps(early, lambda _: False, {}), one, *witness.steps(late, lambda _: False, {}), two]


def _before(raw: RawFinding, witness: Witness | None) -> list[Step]:
    """Return the steps before a store whose lanes write different values.  The store is the first such execution by its
    warp."""
    if witness is None:
        return []
    before = witness.before((raw.cta, raw.warp, raw.detail["interval"]))
    free = not (witness.places.depends_on_races() or witness.asynchronous)
    if not free or witness.count_in_order(before, [(raw.cta, raw.warp)]) is None:
        store = Access(raw.cta, raw.warp, raw.detail["interval"], raw.pc, raw.detail["address"], raw.lanes)
        before = witness.run_until(witness.first(store) - 1)
    return witness.steps(before, lambda _: False, {})


def _help(found: Conflict, witness: Witness | None) -> str:
    places, one, two = found.places, found.first.access, found.second.access
    if left_out := witness and _left_out(found, witness):
        return left_out
    in_branch, (barrier, who) = places.is_in_other_branch(one.pc, two.pc), _barrier(found)
    together = found.hazard == "write-after-write" or not (in_branch or places.is_in_other_branch(two.pc, one.pc))
    if found.one_place or (
        found.one_text and together and not found.share_a_loop and found.hazard != "read-after-write"
    ):
        if found.names_element:
            return f"several lanes update `{found.text}`: use `cuda.atomic`, or give each lane its own element"
        return (
            f"add {barrier} between the two, in all lanes; or, if several of them update `{found.text}`, use "
            "`cuda.atomic`"
        )
    if update := update_help(found):
        return update.replace("in one warp only", "in one lane only")
    if found.one_statement:
        return f"keep the loaded value in a variable, add {barrier} and store it after that"
    if found.apart and found.first.iteration == found.second.iteration:
        text = f"put {places.near(two.pc, one.pc)} into an `if` of its own after that of {places.near(one.pc, two.pc)}"
        return f"{text}, and {barrier} between the two, where all {who} meet"
    later = ", after its branch" * in_branch
    text = f"add {barrier} {places.after(one.pc, two.pc)}{later}, where all {who} meet"
    if places.leaves(one.pc, two.pc):
        return f"{text}: none may return before it"
    if found.hazard == "read-after-write" and found.one_text and not found.share_a_loop and who == "lanes":
        return f"{text}; or pass the value on with `cuda.shfl_sync`, without memory"
    return f"{text}{found.again}"


def _barrier(found: Conflict) -> tuple[str, str]:
    """Return the barrier that orders the lanes, and the threads that wait at it.  If warps race at the same lines as
    well, it is a barrier of all warps."""
    places, one, two = found.places, found.first.access, found.second.access
    lines = {places.line(one.pc), places.line(two.pc)}
    across = any(
        {places.line(raw.pc), places.line(raw.other_pc)} == lines and raw.detail.get("other_cta", raw.cta) == raw.cta
        for raw in places.outcome.findings
        if raw.code == "race" and raw.other_pc >= 0
    )
    return ("`cuda.syncthreads()`", "threads") if across else ("`cuda.syncwarp()`", "lanes")


def _left_out(found: Conflict, witness: Witness) -> str:
    """Return the help for a warp-wide operation between (1) and (2) whose mask omits the lane of (1)."""
    places, one, two = found.places, found.first, found.second
    if None in (one.position, two.position) or not places.leaves(one.access.pc, two.access.pc):
        return ""
    lanes = one.access.lanes & witness.events[one.position or 0].lanes
    for event in witness.events[(one.position or 0) + 1 : two.position]:
        mine = (event.kind, event.cta, event.warp) == ("warp", one.access.cta, one.access.warp)
        if mine and event.place & two.access.lanes and not event.place & lanes:
            return f"include {lanes_text(lanes)} in the mask on {places.near(event.pc, two.access.pc)}"
    return ""


def _one_store(raw: RawFinding, places: Places, witness: Witness | None) -> Finding:
    """Return the finding of several lanes of one store that store different values to the same byte."""
    address, stays = raw.detail["address"], raw.detail["other_lane"]
    space = places.space(address >> SEGMENT_SHIFT)
    what = places.access_text(raw.pc, address)
    role = places.role([raw.pc])
    label = f"stored by {lanes_text(raw.lanes | 1 << stays)} of {places.who(raw.cta, raw.warp)}"
    return Finding(
        code=raw.code,
        message=f"lanes of one store write different values to {space} `{what}`",
        sites=[places.site(raw.pc, label, cta=raw.cta, warp=raw.warp, role=role), *places.callers(raw.pc)],
        notes=[f"at `{places.element(address, raw.pc)}` lane {stays}'s value stayed; the hardware leaves any of them"],
        help="store in one lane only, give each lane its own element, or combine the values with `cuda.atomic`",
        count=raw.count,
        steps=[*_before(raw, witness), culprit(raw, places)],
    )
