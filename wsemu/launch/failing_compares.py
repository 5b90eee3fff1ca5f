"""Races between a read and a `cas` that fails.  Such a `cas` writes nothing, and two reads do not race in PTX.

Engines treat every `cas` as a write, because it may write in another order.  If a race between a read and a `cas` is
found, the launch runs again on the reference engine with each `cas` that fails as a load.  If the race is gone in that
run, all orders must be explored to find one in which the `cas` writes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.launch.running import ran
from wsemu.model.data import replace
from wsemu.model.errors import UnsupportedError
from wsemu.model.isa import ATOMIC, ATOMICS, NAMES, NO_STORE, READ
from wsemu.model.outcome import COMPARED

if TYPE_CHECKING:
    from collections.abc import Callable

    from wsemu.model.bound import Bound
    from wsemu.model.outcome import Outcome, RawFinding
    from wsemu.model.program import Program

    Separate = Callable[[list[RawFinding]], list[RawFinding]]
    """leaves out races that atomics order in this run"""

RACES = ("race", "intra-warp-race")


def find_failing_compares(
    bound: Bound, outcome: Outcome, initial: Callable[[], list[Any]], separate: Separate
) -> list[RawFinding]:
    """Return the races between a read and a `cas` that vanish in this run, because the `cas` fails.

    The list is empty if the run is too long.  If a `cas` fails in one execution, and writes in a later one that atomics
    order after the read, they do not race either: `separate` removes the pair."""
    asked = [raw for raw in outcome.findings if _may_write_nothing(bound.program, raw)]
    if not asked or outcome.status != "done" or outcome.thread_operations > COMPARED:
        return []
    before = initial()
    if any(kept is None for kept in before):
        return []
    segments = [(np.array(data), writable) for data, (_, writable) in zip(before, bound.segments, strict=True)]
    settings = replace(bound.settings, engine="reference")
    try:
        again = ran(bound._replace(segments=segments, settings=settings), 1, settings.budget, values=True)[0]
    except UnsupportedError:  # more concurrent warps than the reference engine supports
        return []
    if again.executions != outcome.executions or again.overflow:
        return []
    races = separate([raw for raw in again.findings if raw.code in RACES and _may_write_nothing(bound.program, raw)])
    left = {frozenset((raw.pc, raw.other_pc)) for raw in races}
    return [raw for raw in asked if frozenset((raw.pc, raw.other_pc)) not in left]


def _may_write_nothing(program: Program, raw: RawFinding) -> bool:
    """Return whether a race may be between a `cas` that fails and a read: a plain load, a strong load, or another
    `cas`."""
    if raw.code not in RACES:
        return False
    sides = ((raw.pc, raw.detail["kind"]), (raw.other_pc, raw.detail["other_kind"]))
    compares = [_is_compare(program, pc) for pc, _ in sides]
    loads = [kind == READ or (kind == ATOMIC and _is_strong_load(program, pc)) for pc, kind in sides]
    return any(compares) and all(a or b for a, b in zip(compares, loads, strict=True))


def _is_compare(program: Program, pc: int) -> bool:
    name = NAMES[int(program.code[pc, 0])] if pc >= 0 else ""
    return name in ATOMICS and ATOMICS[name][0] == "cas"


def _is_strong_load(program: Program, pc: int) -> bool:
    return pc >= 0 and NAMES[int(program.code[pc, 0])] in ATOMICS and bool(program.code[pc, 7] & NO_STORE)
