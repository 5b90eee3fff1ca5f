"""Stores that nothing orders, and that all write the same value: `same-value-store`.

The search for races compares accesses, not values.  If all that fails is two stores to one place, the launch runs again
on the reference engine, which keeps of each byte all stores that nothing orders, and compares what they write.  If that
run has no race, every two accesses that nothing orders write the same; then no schedule shows which was first.  It has
to be the same value in every schedule: one that the order of atomics, a clock, or the place of a warp decides is not.

In a larger launch that is decided of bulk stores alone: lanes of one instruction that store the same bytes from the
same place bring the same values.  The launch runs again once for each lane, which is then the only one of those that
store alike.  If no run has a race, and none stores twice to one place of global memory without a plain store between,
each of these stores is ordered with everything but those alike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wsemu.launch.binding import address_rows
from wsemu.launch.lane_lag import RULES
from wsemu.launch.running import ran
from wsemu.model.codes import CODES
from wsemu.model.data import replace
from wsemu.model.effects import PUTS
from wsemu.model.errors import UnsupportedError
from wsemu.model.isa import LANES, NAMES, WRITE
from wsemu.model.outcome import COMPARED
from wsemu.proof.taint import examine

if TYPE_CHECKING:
    from wsemu.launch.running import Ran
    from wsemu.model.bound import Bound
    from wsemu.model.outcome import Outcome, RawFinding

RACES = ("race", "intra-warp-race")
WATCHED = (*RACES, "same-value-store", "proxy", "proxy-war")
"""what a race of two stores hides of the first of them, in the run that knows the last store alone"""
MOST, MOST_TRIED = COMPARED, 1 << 12
"""thread instructions of a launch that is run again, a few seconds; the same of an edit that is tried"""
MOST_ALONE = 1 << 28
"""of all runs in which one lane stores alone"""
DETAIL = ("address", "kind", "other_kind", "size", "other_cta")


def excused(bound: Bound, run: Ran, *, tried: bool = False) -> Ran:
    """Return a run whose findings distinguish stores of one value from other races; `tried`: it is one of many."""
    outcome, trace, initial = run
    errors = [raw for raw in outcome.findings if raw.code in CODES and CODES[raw.code].severity == "error"]
    racing = [raw for raw in errors if raw.code in RACES]
    others = [raw for raw in errors if raw.code not in RACES and raw.code not in RULES]
    if not racing or others or outcome.status != "done" or not all(map(_are_stores, racing)):
        return run
    if outcome.overflow or not {"race", "intra-warp", "same-value"} <= bound.settings.checkers:
        return run
    short = outcome.thread_operations <= (MOST_TRIED if tried else MOST)
    before = initial()
    if any(kept is None for kept in before):
        return run if short else _uncompared(run)
    segments = [(np.array(data), writable) for data, (_, writable) in zip(before, bound.segments, strict=True)]
    again = bound._replace(segments=segments)
    if short:
        told = _compared(again, outcome)
    else:
        told = None if tried else _stored_alone(again, outcome, racing)
    if told is None:
        return run if short else _uncompared(run)
    findings = [raw for raw in outcome.findings if raw.code not in RACES]
    known = {_key(raw) for raw in findings}
    more = [raw for raw in told if raw.code in WATCHED and _key(raw) not in known]
    if any(CODES[raw.code].severity == "error" for raw in more):
        return run
    if _may_differ(bound, outcome, {pc for raw in (*racing, *more) for pc in (raw.pc, raw.other_pc)}):
        return run
    findings = sorted([*findings, *more], key=_key)
    return replace(outcome, findings=findings), trace, initial


def _compared(again: Bound, outcome: Outcome) -> list[RawFinding] | None:
    """What the reference engine finds, which compares values; None: it cannot."""
    again = again._replace(settings=replace(again.settings, engine="reference"))
    try:
        slow = ran(again, 1, again.settings.budget, values=True)[0]
    except UnsupportedError:  # more warps at once than the reference engine takes
        return None
    return None if slow.status != "done" or slow.executions != outcome.executions or slow.overflow else slow.findings


def _stored_alone(again: Bound, outcome: Outcome, racing: list[RawFinding]) -> list[RawFinding] | None:
    """What the runs find in which one lane of those that store alike does; None: others than these race."""
    code = again.program.code
    if again.settings.engine != "vm" or LANES * outcome.thread_operations > MOST_ALONE:
        return None
    if not all(raw.pc == raw.other_pc and NAMES[int(code[raw.pc, 0])] in PUTS for raw in racing):
        return None
    found = [
        replace(raw, code="same-value-store", detail={name: raw.detail[name] for name in DETAIL}) for raw in racing
    ]
    for lane in range(1, LANES + 1):
        segments = [(data.copy(), writable) for data, writable in again.segments]
        one = ran(again._replace(segments=segments), 1, again.settings.budget, alone=lane)[0]
        if one.status != "done" or one.executions != outcome.executions or one.overflow:
            return None
        known = {_key(raw) for raw in found}
        found += [raw for raw in one.findings if raw.code in WATCHED and _key(raw) not in known]
        if any(raw.code in RACES for raw in found):
            return None
    return found


def _may_differ(bound: Bound, outcome: Outcome, stores: set[int]) -> bool:
    """Return whether another schedule, or another run, may have other values for one of these stores, or go other ways:
    then all orders of atomics are tried, in which the stores may be ordered, or a race."""
    x, y, z = bound.configuration.block
    analysis = examine(
        bound.program, outcome.executions, address_rows(bound.program, bound.rows, bound.names, bound.arrays).get,
        lockstep=bound.settings.lockstep, lanes_by_x=x % LANES == 0 or y == z == 1,
    )  # fmt: skip
    return analysis is not None and (bool(analysis.tainted) or analysis.stores_other_values(stores))


def _uncompared(run: Ran) -> Ran:
    """The run with what there is to say of a race in a launch that is too long to compare values."""
    outcome, trace, initial = run
    size = {"uncompared": outcome.thread_operations}
    findings = [replace(raw, detail=raw.detail | size) if raw.code in RACES else raw for raw in outcome.findings]
    return replace(outcome, findings=findings), trace, initial


def _key(raw: RawFinding) -> tuple[str, int, int]:
    return raw.code, raw.pc, raw.other_pc


def _are_stores(raw: RawFinding) -> bool:
    return raw.other_pc >= 0 and raw.detail["kind"] == raw.detail["other_kind"] == WRITE
