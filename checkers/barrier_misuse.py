"""Misuse of named barriers: `count-mismatch`, `all-arrive`, `oversubscribed`, `barrier-divergence`,
`invalid-barrier`, `dangling-arrive`.

Detects: operations of one generation with different counts, some of them with none, or with different reductions (B5).
Also detects: a generation completed by arrivals alone (B10); a count of more threads than the CTA has, which is a
warning if the launch ends.  Also detects: aligned barriers and `.sync` warp operations reached by part of a warp (B12).
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
    f"count (B12, B14): an H100 {_STOPS}"
)


_ONE_COUNT = "give every operation of this barrier the same count: all threads that arrive plus all that sync"


def explain(raw: RawFinding, places: Places) -> Finding:
    """Return the finding of a barrier operation that is wrong in itself, or contradicts others of its generation."""
    return _EXPLAIN[raw.code](raw, places).model_copy(update={"steps": [culprit(raw, places)]})


def rank(raw: RawFinding, places: Places, trace: Trace | None) -> int:
    """Rank arrivals that are never waited for first, because they cause the other findings."""
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
        f"barrier {d['barrier']}: count {d['count']} in a generation that was opened with count {d['expected']}",
        f"{places.who(raw.cta, raw.warp)} gives {d['count']}",
        _first_operation(raw, places, f"warp {raw.other_warp} opened it with {d['expected']}"),
        ["the hardware raises an illegal instruction; the launch was stopped here"],
        _one_count(raw, places),
    )  # fmt: skip


def _one_count(raw: RawFinding, places: Places) -> str:
    """Return the help that changes one of the two counts: the other one is the number of threads that reach the
    barrier."""
    d = raw.detail
    known, perhaps, once = _coming(raw, places)
    threads = range(32 * len(known), 32 * (len(known) + len(perhaps)) + 1, 32)
    right = [count for count in (d["expected"], d["count"]) if count and count in threads]
    if not right or not once:
        return _ONE_COUNT
    if len(right) == 2:
        more, less = max(right), min(right)
        warps = f"{warps_text(perhaps)} {'comes' if len(perhaps) == 1 else 'come'}"
        return f"give all the same count: {more} if {warps} to barrier {d['barrier']}, too, or {less}"
    wrong = d["count"] if right == [d["expected"]] else d["expected"]
    lines = _giving(wrong, raw, places)
    where = f"line{'s' * (len(lines) > 1)} {', '.join(map(str, lines))}"
    who = f"{right[0] // 32} warps come to barrier {d['barrier']}, {right[0]} threads"
    return f"{who}: {where} should give {right[0]}, not {wrong}"


def _giving(count: int, raw: RawFinding, places: Places) -> list[int]:
    """The lines of the operations of a finding's barrier that give this count."""
    given = {raw.pc: raw.detail["count"], raw.other_pc: raw.detail["expected"]}
    operations = (pc for pc in range(len(places.program.code)) if places.barrier(pc) == raw.detail["barrier"])
    given = {pc: places.count(pc) or 0 for pc in operations} | given
    return sorted({places.line(pc) for pc, threads in given.items() if threads == count})


def _coming(raw: RawFinding, places: Places) -> tuple[set[int], list[int], bool]:
    """Return the warps that reach the barrier in this generation, and those that may, and whether each has reached it
    once so far."""
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
            f"barrier {barrier}: `{other}` in a generation that was opened with `{one}`",
            f"executed by {who}",
            _first_operation(raw, places, f"warp {raw.other_warp} opened it"),
            ["PTX calls the outcome unpredictable; the launch was stopped here"],
            "let all operations of a generation be the same reduction, or use another barrier for it",
        )  # fmt: skip
    return _finding(
        raw, places,
        f"barrier {barrier}: operations with a count and without one in one generation",
        f"{who} exits" if other == "exit" else f"executed by {who}",
        _first_operation(raw, places, f"warp {raw.other_warp} opened it"),
        ["a barrier with a count also waits for warps that have exited; the launch was stopped here"],
        "give every operation of this barrier a count, or none of them",
    )  # fmt: skip


def _all_arrive(raw: RawFinding, places: Places) -> Finding:
    d = raw.detail
    return _finding(
        raw, places,
        f"barrier {d['barrier']} generation {d['generation']} completes by arrivals alone: {_why_alone(raw, places)}",
        f"{places.who(raw.cta, raw.warp)} arrives last, {d['arrived']} of {d['arrived']}",
        _first_operation(raw, places, f"warp {raw.other_warp} arrived first"),
        ["a warp that syncs later waits for a generation that nobody fills"],
        _missing_sync_help(raw, places),
    )  # fmt: skip


def _missing_sync_help(raw: RawFinding, places: Places) -> str:
    """Return the help that adds a sync for the arrivals."""
    role = places.role([raw.pc])
    if not role:
        return "let the consumer `bar_sync`, and count its threads too"
    gives, waits = CALLS[role]
    other = "DMA" if role == "compute" else "compute"
    if never_synced(raw, places):
        return f"let the {other} warps call `{waits}()`, once for each `{gives}()`"
    return f"let the {role} warps call `{CALLS[other][1]}()` between two `{gives}()`, once for each"


def _why_alone(raw: RawFinding, places: Places) -> str:
    role = places.role([raw.pc])
    if not never_synced(raw, places):
        return f"`{CALLS[role][1]}()` comes too late" if role else "the other side's syncs come too late"
    return f"`{CALLS[role][1]}()` is missing, nobody syncs on it" if role else "nobody syncs on it"


def never_synced(raw: RawFinding, places: Places) -> bool:
    """Return whether no warp executed a sync on the barrier of a finding, so that its arrives cannot have released any
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
        f"barrier {d['barrier']}: count {d['count']} can never be met by a CTA of {d['threads']} threads",
        f"asks for {d['count']} threads",
        [], [f"the CTA has {warps} warp{'s' * (warps > 1)}, each counts 32"],
        f"give the count of the threads that take part, at most {d['threads']}, or launch a larger block",
    )  # fmt: skip


def severity(raw: RawFinding, places: Places) -> Severity | None:
    """Return a severity other than that of its code: a count above the CTA's threads is a warning if the launch
    ends."""
    return "warning" if raw.code == "oversubscribed" and places.outcome.status == "done" else None


def _met_by_turns(raw: RawFinding, places: Places) -> Finding:
    """Return the finding of a count above the CTA's threads in a launch that ends: warps take part more than once, or
    none waits."""
    d = raw.detail
    return _finding(
        raw, places,
        f"barrier {d['barrier']}: count {d['count']} is more than the {d['threads']} threads of the CTA",
        f"asks for {d['count']} threads",
        [], ["it is met where warps arrive more than once; the launch ends"],
        f"give the count of the threads that take part, at most {d['threads']}, if each was to come once",
    )  # fmt: skip


def _invalid_barrier(raw: RawFinding, places: Places) -> Finding:
    d = raw.detail
    message, help_ = {
        0: (f"barrier id {d['barrier']} is not one of 0-15", "a CTA has 16 named barriers: choose an id from 0 to 15"),
        1: (f"barrier count {d['count']} is not a positive multiple of 32", "count whole warps: 32 threads each"),
        2: ("barrier id or count differs between the lanes of a warp", "use one id and one count for the whole warp"),
    }[d["kind"]]
    note = "the hardware takes such an id silently" if d["kind"] == 0 else "the hardware raises an illegal instruction"
    label = f"executed by {places.who(raw.cta, raw.warp)}"
    return _finding(raw, places, message, label, [], [f"{note}; the launch was stopped here"], help_)


def _convergence_help(raw: RawFinding, places: Places) -> str:
    """Return the help that lets all lanes of a mask reach an operation."""
    trips = "; or let all lanes make the same trips of the loop around it" * places.share_a_loop(raw.pc, raw.pc)
    return f"move the operation out of the branch, or compute the mask with `ballot_sync` before it{trips}"


def _mask_help(members: int, left_out: int, lanes: int) -> str:
    """Return the help for a mask that leaves out lanes: groups that execute side by side each name their own."""
    size = members.bit_length() - (members & -members).bit_length() + 1 if members else 0
    groups = [members << shift & 0xFFFFFFFF for shift in range(size, LANES, size)] if size else []
    if members and sum(groups) == left_out:
        each = "their own group" if len(groups) > 1 else f"0x{left_out:08x}"
        return f"{lanes_text(left_out)} should name {each} in the mask; or name all that execute it, 0x{lanes:08x}"
    return f"use the mask of the lanes that execute it, 0x{lanes:08x}; or let only the named lanes reach it"


def _divergence(raw: RawFinding, places: Places) -> Finding:
    d = raw.detail
    if "members" in d and d["barrier"] < 0:
        members, absent = d["members"], d["members"] & d["alive"] & ~raw.lanes
        left_out = raw.lanes & ~members
        named = f"mask 0x{members:08x} " + (
            f"names {lanes_text(absent)}, not there" if absent else f"leaves out {lanes_text(left_out)}"
        )
        return _finding(
            raw, places, "warp-wide operation whose member mask does not match the lanes that execute it",
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
            "branch by whole warps, or let all lanes of the warp come to the same operations in the same order",
        )  # fmt: skip
    stopped = places.outcome.status == "fault" and places.outcome.fault_warp == raw.warp
    return _finding(
        raw, places,
        f"aligned barrier {d['barrier']} reached by a part of a warp",
        f"{executed}; {lanes_text(d['alive'] & ~raw.lanes)} elsewhere",
        [],
        [f"undefined in PTX; the hardware {_STOPS if stopped else 'counts the whole warp, here too'}"],
        _aligned_help(raw, places),
    )  # fmt: skip


def _aligned_help(raw: RawFinding, places: Places) -> str:
    """Return the help for a barrier that a part of a warp reaches."""
    trips = "; or make the same number of iterations in all threads" * places.share_a_loop(raw.pc, raw.pc)
    lanes = ""
    if not places.span(raw.pc).file.endswith(CUDA):
        lanes = f"; `ptx.barrier_{_operation(places, raw.pc)}` is for lanes of a warp that come from different places"
    return f"move the barrier out of the branch, or branch by whole warps{trips}{lanes}"


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
        f"barrier {d['barrier']} is left with {d['arrived']} of {expected} arrivals when the CTA ends: no {answer} "
        f"answers the last {given}",
        f"{places.who(raw.cta, raw.warp)} opened generation {d['generation']}, which nothing completes",
        [], ["harmless on the hardware"], "leave out the last arrive, or let the other side sync once more",
    )  # fmt: skip


_EXPLAIN: dict[str, Callable[[RawFinding, Places], Finding]] = {
    "count-mismatch": _count_mismatch,
    "all-arrive": _all_arrive,
    "oversubscribed": _explain_oversubscribed,
    "invalid-barrier": _invalid_barrier,
    "barrier-divergence": _divergence,
    "dangling-arrive": _dangling,
}
