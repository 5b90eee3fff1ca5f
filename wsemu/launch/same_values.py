"""Stores that nothing orders, and that all write the same value: `same-value-store`.

The search for races compares accesses, not values.  If all that fails is two stores to one place, the launch runs again
on the reference engine, which keeps of each byte all stores that nothing orders, and compares what they write.  If that
run has no race, every two accesses that nothing orders write the same; then no schedule shows which was first.  It has
to be the same value in every schedule: one that the order of atomics, a clock, or the place of a warp decides is not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wsemu.launch.binding import address_rows
from wsemu.launch.lane_lag import RULES
from wsemu.launch.running import ran
from wsemu.model.codes import CODES
from wsemu.model.data import replace
from wsemu.model.errors import UnsupportedError
from wsemu.model.isa import LANES, WRITE
from wsemu.proof.taint import examine

if TYPE_CHECKING:
    from wsemu.launch.running import Ran
    from wsemu.model.bound import Bound
    from wsemu.model.outcome import Outcome, RawFinding

RACES = ("race", "intra-warp-race")
WATCHED = (*RACES, "same-value-store", "proxy", "proxy-war")
"""what a race of two stores hides of the first of them, in the run that knows the last store alone"""
MOST, MOST_TRIED = 1 << 16, 1 << 12
"""thread instructions of a launch that is run again, a few seconds; the same of an edit that is tried"""


def excused(bound: Bound, run: Ran, *, tried: bool = False) -> Ran:
    """Return a run whose findings distinguish stores of one value from other races; `tried`: it is one of many."""
    outcome, trace, initial = run
    errors = [raw for raw in outcome.findings if raw.code in CODES and CODES[raw.code].severity == "error"]
    racing = [raw for raw in errors if raw.code in RACES]
    others = [raw for raw in errors if raw.code not in RACES and raw.code not in RULES]
    if not racing or others or outcome.status != "done" or not all(map(_are_stores, racing)):
        return run
    if (
        outcome.thread_operations > (MOST_TRIED if tried else MOST)
        or outcome.overflow
        or not {"race", "intra-warp", "same-value"} <= bound.settings.checkers
    ):
        return run
    before = initial()
    if any(kept is None for kept in before):
        return run
    segments = [(np.array(data), writable) for data, (_, writable) in zip(before, bound.segments, strict=True)]
    again = bound._replace(segments=segments, settings=replace(bound.settings, engine="reference"))
    try:
        slow = ran(again, 1, bound.settings.budget, values=True)[0]
    except UnsupportedError:  # more warps at once than the reference engine takes
        return run
    if slow.status != "done" or slow.executions != outcome.executions or slow.overflow:
        return run
    findings = [raw for raw in outcome.findings if raw.code not in RACES]
    known = {_key(raw) for raw in findings}
    more = [raw for raw in slow.findings if raw.code in WATCHED and _key(raw) not in known]
    if any(CODES[raw.code].severity == "error" for raw in more):
        return run
    if _may_differ(bound, outcome, {pc for raw in (*racing, *more) for pc in (raw.pc, raw.other_pc)}):
        return run
    findings = sorted([*findings, *more], key=_key)
    return replace(outcome, findings=findings), trace, initial


def _may_differ(bound: Bound, outcome: Outcome, stores: set[int]) -> bool:
    """Return whether another schedule, or another run, may have other values for one of these stores, or go other ways:
    then all orders of atomics are tried, in which the stores may be ordered, or a race."""
    x, y, z = bound.configuration.block
    analysis = examine(
        bound.program, outcome.executions, address_rows(bound.program, bound.rows, bound.names, bound.arrays).get,
        lockstep=bound.settings.lockstep, lanes_by_x=x % LANES == 0 or y == z == 1,
    )  # fmt: skip
    return analysis is not None and (bool(analysis.tainted) or analysis.stores_other_values(stores))


def _key(raw: RawFinding) -> tuple[str, int, int]:
    return raw.code, raw.pc, raw.other_pc


def _are_stores(raw: RawFinding) -> bool:
    return raw.other_pc >= 0 and raw.detail["kind"] == raw.detail["other_kind"] == WRITE
