"""Misuse of named barriers: `count-mismatch`, `all-arrive`, `oversubscribed`, `barrier-divergence`, `invalid-barrier`,
`dangling-arrive`.

Detects: operations of one generation that differ in their counts or their reductions (B5); an operation without a count
differs from one with a count.
Also detects: a generation completed by arrivals alone (B10); a count larger than the number of threads in the CTA,
which is a warning if the launch ends all the same.
Also detects: aligned barriers and `.sync` warp operations reached by part of a warp (B12).
Also detects: ids outside 0-15 and counts that are not a positive multiple of 32 (B1, B2); arrivals left over when a CTA
ends (B11).
Does not detect: operations that another schedule would count into another generation; that is `barrier-recycling`.
Reference: PTX ISA, "bar, barrier", and measurements on an H200; docs/semantics.md has the rules B1 to B14.  The
compiled tests are in `named_barrier.py` and `warp_operations.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wsemu.checkers.deadlock import warps_text
from wsemu.evidence.places import CALLS, Places, lanes_text
from wsemu.evidence.readings import culprit
from wsemu.evidence.source_view import CUDA
from wsemu.model.finding import Finding, Site
from wsemu.model.isa import LANES, NAMES
from wsemu.model.outcome import Detail
from wsemu.model.remedy import Cures

if TYPE_CHECKING:
    from collections.abc import Callable

    from wsemu.model.finding import Severity
    from wsemu.model.outcome import RawFinding, Trace

_BARRIER = {"barrier": "its id"}
_GENERATION = {**_BARRIER, "generation": "that is open", "arrived": "threads so far"}
_COUNTS = {"expected": "threads that the generation was opened with, 0: all of the CTA"}
DETAIL = {
    "count-mismatch": Detail({**_GENERATION, **_COUNTS, "count": "threads that this operation names"}),
    "oversubscribed": Detail({**_BARRIER, "count": "threads that are asked for", "threads": "of the CTA"}),
    "all-arrive": Detail(_GENERATION),
    "barrier-divergence": Detail({
        "barrier": "its id; -1: a warp-wide operation", "alive": "lanes", "members": "lanes that its mask names",
    }),
    "invalid-barrier": Detail({
        **_BARRIER, "count": "threads; 0: none given", "kind": "0: the id, 1: the count, 2: lanes differ",
    }),
    "dangling-arrive": Detail({**_GENERATION, **_COUNTS}),
}  # fmt: skip
CODES = tuple(DETAIL)
CURES = {
    "count-mismatch": Cures(230, "argument constant compare call"),
    "oversubscribed": Cures(240, "argument constant compare call guard delete bound"),
    "all-arrive": Cures(350, "call argument constant compare bound move insert"),
    "barrier-divergence": Cures(145, "split unguard return move insert call argument compare delete"),
    "invalid-barrier": Cures(80, "argument constant call"),
    "dangling-arrive": Cures(464, "guard bound delete insert argument constant compare move unguard call"),
}


_STOPS = "hangs or raises an illegal instruction; the launch was stopped here"
_ONE_OPERATION = (
    "a warp is counted when all its live lanes have reached the same operation of the same barrier, with the same "
    f"count (rules B12 and B14 of docs/semantics.md); otherwise an H100 {_STOPS}"
)


_ONE_COUNT = "give every operation of this barrier the same count: all threads that arrive plus all that sync"


def explain(raw: RawFinding, places: Places) -> Finding:
    """Return the finding of a barrier operation that is wrong in itself, or contradicts others of its generation."""
    return _EXPLAIN[raw.code](raw, places).model_copy(update={"steps": [culprit(raw, places)]})


def rank(raw: RawFinding, places: Places, trace: Trace | None) -> int:
    """Rank first the arrivals that no warp waits for, because they cause the other findings."""
    return -1 if raw.code == "all-arrive" and never_synced(raw, places) else 0


def _finding(
    raw: RawFinding, places: Places, message: str, label: str, others: list[Site], notes: list[str], help_: str
) -> Finding:
    site = places.site(raw.pc, label, cta=raw.cta, warp=raw.warp)
    sites = [site, *others, *places.callers(raw.pc)]
    return Finding(code=raw.code, message=message, sites=sites, notes=notes, help=help_, count=raw.count)


def _first_operation(raw: RawFinding, places: Places, text: str) -> list[Site]:
    if raw.other_pc < 0 or raw.other_pc == raw.pc:
        return []
    return [places.site(raw.other_pc, text, cta=raw.cta, warp=raw.other_warp, primary=False)]


def _count_mismatch(raw: RawFinding, places: Places) -> Finding:
    d = raw.detail
    if d["expected"] == d["count"]:
        return _mixture(raw, places)
    return _finding(
        raw, places,
        f"barrier {d['barrier']} is used with count {d['count']}, but its current generation has count {d['expected']}",
        f"{places.who(raw.cta, raw.warp)} uses count {d['count']}",
        _first_operation(raw, places, f"warp {raw.other_warp} began the generation with count {d['expected']}"),
        ["the hardware raises an illegal instruction; the launch was stopped here"],
        _one_count(raw, places),
    )  # fmt: skip


def _one_count(raw: RawFinding, places: Places) -> str:
    """Return the help for two counts, one of which is the number of threads that reach the barrier: change the other
    count to this number."""
    d = raw.detail
    known, perhaps, once = _coming(raw, places)
    threads = range(32 * len(known), 32 * (len(known) + len(perhaps)) + 1, 32)
    right = [count for count in (d["expected"], d["count"]) if count and count in threads]
    if not right or not once:
        return _ONE_COUNT
    if len(right) == 2:
        more, less = max(right), min(right)
        warps = f"{warps_text(perhaps)} also {'reaches' if len(perhaps) == 1 else 'reach'}"
        return f"use one count everywhere: {more} if {warps} barrier {d['barrier']}, otherwise {less}"
    wrong = d["count"] if right == [d["expected"]] else d["expected"]
    lines = _giving(wrong, raw, places)
    where = f"line{'s' * (len(lines) > 1)} {', '.join(map(str, lines))}"
    who = f"{right[0] // 32} warps use barrier {d['barrier']}"
    return f"change the count on {where} from {wrong} to {right[0]}: {who}"


def _giving(count: int, raw: RawFinding, places: Places) -> list[int]:
    """Return the lines of the operations on a finding's barrier that have this count."""
    given = {raw.pc: raw.detail["count"], raw.other_pc: raw.detail["expected"]}
    operations = (pc for pc in range(len(places.program.code)) if places.barrier(pc) == raw.detail["barrier"])
    given = {pc: places.count(pc) or 0 for pc in operations} | given
    return sorted({places.line(pc) for pc, threads in given.items() if threads == count})


def _coming(raw: RawFinding, places: Places) -> tuple[set[int], list[int], bool]:
    """Return the warps that reach the barrier in this generation, the warps that may reach it, and whether each warp
    has reached it once so far."""
    barrier, outcome = raw.detail["barrier"], places.outcome
    there = next((b.participants for b in outcome.barriers if b.barrier == barrier), [])
    known = {*there, raw.warp, raw.other_warp}
    perhaps = []
    for state in outcome.warps:
        if state.alive and state.warp not in known:
            comes = places.comes_to(state.pc, barrier)
            known |= {state.warp} if comes else set()
            perhaps += [state.warp] if comes is None else []
    once = outcome.cta == raw.cta and raw.warp not in there and 32 * len({*there}) == raw.detail["arrived"]
    return known, perhaps, once


def _mixture(raw: RawFinding, places: Places) -> Finding:
    """Return the finding of operations with the same count that contradict each other: different reductions, or one
    operation with a count and one without."""
    barrier, who = raw.detail["barrier"], places.who(raw.cta, raw.warp)
    one, other = (NAMES[int(places.program.code[pc, 0])] for pc in (raw.other_pc, raw.pc))
    if one != other and any(name.startswith("bar.red") for name in (one, other)):
        return _finding(
            raw, places,
            f"barrier {barrier}: `{other}` in a generation that began with `{one}`",
            f"executed by {who}",
            _first_operation(raw, places, f"warp {raw.other_warp} opened it"),
            ["PTX calls the outcome unpredictable; the launch was stopped here"],
            "use one reduction in all operations of a generation, or use another barrier",
        )  # fmt: skip
    return _finding(
        raw, places,
        f"barrier {barrier}: one generation mixes operations with and without a count",
        f"{who} exits" if other == "exit" else f"executed by {who}",
        _first_operation(raw, places, f"warp {raw.other_warp} opened it"),
        ["a barrier with a count also waits for warps that have exited; the launch was stopped here"],
        "give every operation of this barrier a count, or none of them",
    )  # fmt: skip


def _all_arrive(raw: RawFinding, places: Places) -> Finding:
    d = raw.detail
    return _finding(
        raw, places,
        f"barrier {d['barrier']} generation {d['generation']} completes by arrives alone: {_why_alone(raw, places)}",
        f"{places.who(raw.cta, raw.warp)} arrives last, {d['arrived']} of {d['arrived']}",
        _first_operation(raw, places, f"warp {raw.other_warp} arrived first"),
        ["a warp that syncs later waits for a generation that never completes"],
        _missing_sync_help(raw, places),
    )  # fmt: skip


def _missing_sync_help(raw: RawFinding, places: Places) -> str:
    """Return the help that adds a sync for the arrivals."""
    role = places.role([raw.pc])
    if not role:
        return "add a `bar_sync` in the consumer, and include its threads in the count"
    gives, waits = CALLS[role]
    other = "DMA" if role == "compute" else "compute"
    if never_synced(raw, places):
        return f"call `{waits}()` in the {other} warps, once for each `{gives}()`"
    return f"call `{CALLS[other][1]}()` in the {role} warps between two `{gives}()`, once for each"


def _why_alone(raw: RawFinding, places: Places) -> str:
    role = places.role([raw.pc])
    if not never_synced(raw, places):
        return f"`{CALLS[role][1]}()` comes too late" if role else "the other side's syncs come too late"
    return f"`{CALLS[role][1]}()` is missing, so no warp waits for it" if role else "nobody syncs on it"


def never_synced(raw: RawFinding, places: Places) -> bool:
    """Return whether no warp executed a sync on the barrier of a finding, so that its arrives cannot have released a
    warp."""
    executed = np.flatnonzero(places.outcome.executions).tolist()
    uses = (pc for pc in executed if places.barrier(pc) in (raw.detail["barrier"], None))
    return all(_operation(places, pc) == "arrive" for pc in uses)


def _explain_oversubscribed(raw: RawFinding, places: Places) -> Finding:
    d = raw.detail
    warps = -(-d["threads"] // 32)
    if places.outcome.status == "done":
        return _met_by_turns(raw, places)
    return _finding(
        raw, places,
        f"barrier {d['barrier']} can never complete: it counts {d['count']} threads, the CTA has {d['threads']}",
        f"asks for {d['count']} threads",
        [], [f"the CTA has {warps} warp{'s' * (warps > 1)}, and each counts as 32 threads"],
        f"use the number of participating threads as count, at most {d['threads']}, or launch a larger block",
    )  # fmt: skip


def severity(raw: RawFinding, places: Places) -> Severity | None:
    """Return the severity if it differs from that of the code: a count above the number of threads in the CTA is a
    warning if the launch ends."""
    return "warning" if raw.code == "oversubscribed" and places.outcome.status == "done" else None


def _met_by_turns(raw: RawFinding, places: Places) -> Finding:
    """Return the finding of a count that exceeds the number of threads in the CTA, although the launch ends: warps
    arrive more than once, or no warp waits."""
    d = raw.detail
    return _finding(
        raw, places,
        f"barrier {d['barrier']}: count {d['count']} is more than the {d['threads']} threads of the CTA",
        f"asks for {d['count']} threads",
        [], ["the launch ends all the same, because warps arrive more than once"],
        f"if each thread should arrive once, use the number of participating threads as count, at most {d['threads']}",
    )  # fmt: skip


def _invalid_barrier(raw: RawFinding, places: Places) -> Finding:
    d = raw.detail
    message, help_ = {
        0: (f"barrier id {d['barrier']} is not one of 0-15", "a CTA has 16 named barriers: choose an id from 0 to 15"),
        1: (f"barrier count {d['count']} is not a positive multiple of 32", "count whole warps: 32 threads each"),
        2: ("barrier id or count differs between the lanes of a warp", "use one id and one count for the whole warp"),
    }[d["kind"]]
    note = (
        "the hardware accepts such an id silently" if d["kind"] == 0 else "the hardware raises an illegal instruction"
    )
    label = f"executed by {places.who(raw.cta, raw.warp)}"
    return _finding(raw, places, message, label, [], [f"{note}; the launch was stopped here"], help_)


def _convergence_help(raw: RawFinding, places: Places) -> str:
    """Return the help that lets all lanes of a mask reach an operation."""
    trips = "; or make all lanes execute the same number of iterations of the loop around it" * places.share_a_loop(
        raw.pc, raw.pc
    )
    return f"move the operation out of the branch, or compute the mask with `ballot_sync` before it{trips}"


def _mask_help(members: int, left_out: int, lanes: int) -> str:
    """Return the help for a mask that leaves out lanes.  Groups of lanes that execute the operation separately each
    need a mask of their own."""
    size = members.bit_length() - (members & -members).bit_length() + 1 if members else 0
    groups = [members << shift & 0xFFFFFFFF for shift in range(size, LANES, size)] if size else []
    if members and sum(groups) == left_out:
        each = "their own group" if len(groups) > 1 else f"0x{left_out:08x}"
        return (
            f"{lanes_text(left_out)} should name {each} in the mask; or use the mask of all lanes that execute it, "
            f"0x{lanes:08x}"
        )
    return f"use the mask of the lanes that execute it, 0x{lanes:08x}; or execute it in the named lanes only"


def _divergence(raw: RawFinding, places: Places) -> Finding:
    d = raw.detail
    if "members" in d and d["barrier"] < 0:
        members, absent = d["members"], d["members"] & d["alive"] & ~raw.lanes
        left_out = raw.lanes & ~members
        named = f"mask 0x{members:08x} " + (
            f"names {lanes_text(absent)}, absent here" if absent else f"leaves out {lanes_text(left_out)}"
        )
        return _finding(
            raw, places, "member mask of a warp-wide operation differs from the lanes that execute it",
            f"executed by {lanes_text(raw.lanes)} of {places.who(raw.cta, raw.warp)}: {named}", [],
            ["the hardware waits for the named lanes or gives undefined values"],
            _convergence_help(raw, places) if absent else
            _mask_help(members, left_out, raw.lanes),
        )  # fmt: skip
    executed = f"executed by {lanes_text(raw.lanes)} of {places.who(raw.cta, raw.warp)}"
    if raw.other_pc >= 0 and not places.program.code[[raw.pc, raw.other_pc], 7].any():
        return _finding(
            raw, places,
            "lanes of a warp wait at two different barrier operations",
            f"barrier {d['barrier']}: {executed}",
            _first_operation(raw, places, f"other lanes of warp {raw.warp} wait here"),
            [_ONE_OPERATION],
            "make the branch warp-uniform, or execute the same operations in the same order in all lanes of the warp",
        )  # fmt: skip
    stopped = places.outcome.status == "fault" and places.outcome.fault_warp == raw.warp
    return _finding(
        raw, places,
        f"only part of a warp executes aligned barrier {d['barrier']}",
        f"{executed}; {lanes_text(d['alive'] & ~raw.lanes)} elsewhere",
        [],
        [f"undefined in PTX; the hardware {_STOPS if stopped else 'counts the whole warp, and so does this run'}"],
        _aligned_help(raw, places),
    )  # fmt: skip


def _aligned_help(raw: RawFinding, places: Places) -> str:
    """Return the help for a barrier that a part of a warp reaches."""
    trips = "; or make the same number of iterations in all threads" * places.share_a_loop(raw.pc, raw.pc)
    lanes = ""
    if not places.span(raw.pc).file.endswith(CUDA):
        lanes = f"; `ptx.barrier_{_operation(places, raw.pc)}` allows divergent lanes"
    return f"move the barrier out of the branch, or make the branch warp-uniform{trips}{lanes}"


def _operation(places: Places, pc: int) -> str:
    """Return the name of a barrier operation without its prefix: `sync`, `arrive`, `red_popc`."""
    return NAMES[int(places.program.code[pc, 0])].removeprefix("bar.").replace(".", "_")


def _dangling(raw: RawFinding, places: Places) -> Finding:
    d = raw.detail
    role = places.role([raw.pc])
    given, answer = (f"`{name}()`" for name in CALLS[role]) if role else ("arrive", "sync")
    expected = d["expected"] or places.block[0] * places.block[1] * places.block[2]
    return _finding(
        raw, places,
        f"barrier {d['barrier']} has {d['arrived']} of {expected} arrivals when the CTA exits: the last {given} has no "
        f"matching {answer}",
        f"{places.who(raw.cta, raw.warp)} began generation {d['generation']}, which never completes",
        [], ["harmless on the hardware"], "remove the last arrive, or add one more sync on the other side",
    )  # fmt: skip


_EXPLAIN: dict[str, Callable[[RawFinding, Places], Finding]] = {
    "count-mismatch": _count_mismatch,
    "all-arrive": _all_arrive,
    "oversubscribed": _explain_oversubscribed,
    "invalid-barrier": _invalid_barrier,
    "barrier-divergence": _divergence,
    "dangling-arrive": _dangling,
}
