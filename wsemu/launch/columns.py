"""Allocations of tensor memory that may have to wait, within a CTA and on a multiprocessor (`tcgen05.alloc`).

An allocation spins until its columns are free.  It always ends if the columns of all resident CTAs fit, or if each CTA
allocates once and no CTA waits for another one.  In all other launches one run does not decide whether it ends.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from wsemu.model.control_flow import loop_numbers
from wsemu.model.isa import ATOMICS, NAMES, OPCODE
from wsemu.model.residency import ctas_per_multiprocessor
from wsemu.model.tensor_memory import ALLOC, ALLOCATION, COLUMNS, PAIR, RELEASE, RELINQUISH

if TYPE_CHECKING:
    from wsemu.evidence.places import Places
    from wsemu.model.launch_shape import LaunchConfiguration
    from wsemu.model.outcome import RawFinding
    from wsemu.model.program import Program


def split_reuse(wanted: list[RawFinding], places: Places) -> tuple[list[RawFinding], list[str]]:
    """Return the launch's allocations of columns that are not ordered after the release they depend on, each with a
    reason: in another schedule they wait, or get other columns."""
    reused = [raw for raw in wanted if raw.code == "tmem-race" and _is_reuse(raw)]
    reasons = [
        f"{places.where(raw.pc)}: the allocation is not ordered after the release at line {places.line(raw.other_pc)}: "
        "whether it ends in every schedule is not decided; order it after the release"
        for raw in reused
    ]
    out = {id(raw) for raw in reused}
    return [raw for raw in wanted if id(raw) not in out], list(dict.fromkeys(reasons))


def _is_reuse(raw: RawFinding) -> bool:
    return (raw.detail["other_what"], raw.detail["what"]) == (RELEASE, ALLOCATION)


def space_doubts(places: Places, configuration: LaunchConfiguration) -> list[str]:
    """Return why CTAs of one multiprocessor may wait for each other's columns for ever."""
    program = places.program
    allocations = _find_executed(places, ALLOC)
    if not allocations:
        return []
    resident = _resident_ctas(program, configuration, pair=bool(int(program.code[allocations[0], 7]) & PAIR))
    if resident == 1:
        return []
    most, columns = places.outcome.allocations
    peak = min(columns, COLUMNS)
    waits, where = _may_wait(program, configuration), places.where(allocations[0])
    if resident * peak > COLUMNS and (most > 1 or waits):
        why = "a CTA allocates more than once" if most > 1 else "CTAs wait for each other"
        held = f"a multiprocessor may hold {resident} CTAs of {peak} columns of tensor memory, and has {COLUMNS}"
        undecided = "whether the allocation ends in every schedule is not decided"
        return [f"{where}: {held}; {why}: {undecided}: allocate fewer columns, or once"]
    if waits and not _find_executed(places, RELINQUISH):
        why = "CTAs wait for each other, and keep the permit to allocate from others of their multiprocessor"
        return [f"{where}: {why}: add `tcgen05.relinquish_alloc_permit` after the last allocation"]
    return []


def _find_executed(places: Places, name: str) -> list[int]:
    """Return the executed instructions of an operation."""
    executions = places.outcome.executions
    return [pc for pc, op in enumerate(places.program.code[:, 0].tolist()) if op == OPCODE[name] and executions[pc]]


def _resident_ctas(program: Program, configuration: LaunchConfiguration, *, pair: bool) -> int:
    """Return the maximum number of CTAs of the launch on a multiprocessor.  The two CTAs of a pair are on different
    multiprocessors."""
    ctas = int(configuration.ctas) // (2 if pair else 1)
    return max(1, min(resident_at_most(program, configuration), ctas))


def resident_at_most(program: Program, configuration: LaunchConfiguration) -> int:
    """Return how many CTAs of a kernel a multiprocessor has room for, whatever the grid."""
    shared = -(-program.shared_bytes // 16) * 16 + configuration.dynamic_shared
    each, _ = ctas_per_multiprocessor(configuration.arch, math.prod(configuration.block), shared, program.registers)
    return each


def _may_wait(program: Program, configuration: LaunchConfiguration) -> bool:
    """Return whether a CTA may wait for another one."""
    if program.cooperative or configuration.cluster != (1, 1, 1):
        return True
    loops = loop_numbers(program)
    return any(loops[pc] >= 0 and NAMES[op] in ATOMICS for pc, op in enumerate(program.code[:, 0].tolist()))
