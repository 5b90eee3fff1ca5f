"""Run a launch a second time with its tensor memory allocations at other columns (`tcgen05.alloc`).

Which columns an allocation gets depends on the other CTAs of the multiprocessor, including those of other kernels.  So
a launch without an error runs again, and each CTA of a cluster then gets other columns.  Accesses and releases that do
not follow the allocation are errors.  If other instructions run, or results differ, the launch is undecided.

There are three exceptions.  An allocation of 512 columns begins at column 0 in every run.  A kernel may trap if its
columns begin elsewhere.  If no other CTA fits on the multiprocessor, a difference is only a note.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.launch.columns import resident_at_most
from wsemu.model.codes import CHECKER_OF
from wsemu.model.data import NamedTuple, replace
from wsemu.model.isa import NAMES, OPCODE
from wsemu.model.tensor_memory import ALLOC, COLUMN_ERRORS, COLUMNS, GRANULE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wsemu.evidence.places import Places
    from wsemu.model.bound import Bound
    from wsemu.model.outcome import Outcome, RawFinding

MOST_MOVED = {"vm": 100_000, "reference": 25_000}
"""for each engine, the number of warp instructions of all runs after the first one, for one unit of effort"""
_TENSOR = 500
"""warp instructions in whose time a `tcgen05` operation executes"""
_OPERATIONS = np.array([name.startswith("tcgen05.") for name in NAMES])


class Moved(NamedTuple):
    """Differences between a launch and a run of it with its allocations at other columns."""

    findings: Sequence[RawFinding] = ()
    reasons: Sequence[str] = ()
    notes: Sequence[str] = ()


def move_columns(bound: Bound, outcome: Outcome, initial: Callable[[], list[Any]], places: Places) -> Moved:
    """Run a launch again with its allocations at other columns.  Return the differences."""
    code = bound.program.code[:, 0].tolist()
    allocations = [pc for pc, op in enumerate(code) if op == OPCODE[ALLOC] and outcome.executions[pc]]
    if not allocations or outcome.status != "done":
        return Moved()
    for first in _first_granules(bound, outcome, allocations):
        moved = _run_moved(bound, outcome, initial, first, places, allocations[0])
        if any(moved):
            return moved
    return Moved()


def _first_granules(bound: Bound, outcome: Outcome, allocations: list[int]) -> list[int]:
    """Return from which granules of columns to search for allocations, one for each run."""
    constants = {row: int(value) for row, _, value in bound.program.constants}
    least = min(constants.get(int(bound.program.code[pc, 4]), GRANULE) for pc in allocations)
    step = max(least, GRANULE) // GRANULE
    granules = COLUMNS // GRANULE
    others = [granules - step, *range(step, granules - step, step)] if step < granules else []
    operations = np.minimum(bound.program.code[:, 0], len(NAMES) - 1)
    tensor = int(np.asarray(outcome.executions)[_OPERATIONS[operations]].sum())
    work = outcome.warp_instructions + _TENSOR * tensor
    return others[: 1 + MOST_MOVED[bound.settings.engine] * bound.settings.effort // max(work, 1)]


def _run_moved(
    bound: Bound, outcome: Outcome, initial: Callable[[], list[Any]], first: int, places: Places, allocation: int
) -> Moved:
    """Return the differences of one such run."""
    from wsemu.launch.running import ran

    segments = [(np.array(data), writable) for data, (_, writable) in zip(initial(), bound.segments, strict=True)]
    quiet = replace(bound.settings, checkers=frozenset())  # unordered operations are known from the first run
    budget = 2 * outcome.warp_instructions + 100_000
    found, *_ = ran(bound._replace(segments=segments, settings=quiet), None, budget, first_granule=first)
    where, at = places.where(allocation), f"column {first * GRANULE}"
    if _asserts(found):
        return Moved(notes=[f"{where}: the kernel traps if its columns of tensor memory begin at another one, {at}"])
    known = {(raw.code, raw.pc) for raw in outcome.findings}
    new = [raw for raw in found.findings if raw.code.startswith("tmem-") and (raw.code, raw.pc) not in known]
    same = _list_executions(found) == _list_executions(outcome)
    if same and not new and all(np.array_equal(a, b) for (a, _), (b, _) in zip(segments, bound.segments, strict=True)):
        return Moved()
    what = "which columns it uses" if new else "what it stores" if same else "which instructions run"
    if resident_at_most(bound.program, bound.configuration) == 1:
        alone = "no second CTA of the launch fits on the multiprocessor, and CTAs of other kernels must not be there"
        return Moved(notes=[f"{where}: {what} relies on the columns that an allocation without others gets: {alone}"])
    if errors := [raw for raw in new if raw.code in COLUMN_ERRORS and CHECKER_OF[raw.code] in bound.settings.checkers]:
        return Moved([replace(raw, detail=raw.detail | {"moved": first * GRANULE}) for raw in errors])
    why = f"{what} depends on the columns that this allocation gets, which differ by run: seen with {at}"
    return Moved(reasons=[f"{where}: {why}; compute only addresses of tensor memory from its address"])


def _list_executions(outcome: Outcome) -> tuple[Any, ...]:
    """Return the executions that must be equal in two runs with the same behavior."""
    lanes = {pc: access.lanes for pc, access in outcome.accesses.items() if access.lanes}
    return outcome.status, outcome.executions, outcome.thread_operations, lanes


def _asserts(found: Outcome) -> bool:
    """Return whether some thread failed an assertion, or executed a trap."""
    return any(raw.code == "failed-assertion" for raw in found.findings)
