"""Masks of active lanes after a barrier: they name all lanes of the warp that reach the instruction on its only path.

All lanes of a warp wait at an aligned barrier together. After it, a GPU lets them continue together until a branch
separates them, and lanes that take the same side stay together. After a join of several paths, lanes may be together or
not. Lanes may also diverge at another wait, which is a loop on a GPU, and at a warp-wide operation that some lanes
skip, or whose members differ between lanes. The mask of an earlier `activemask` does not differ. So on the only path
from the barrier, without these, an `activemask` names all lanes of the warp that reach it. PTX does not promise this:
by its text, the mask need contain only the lane that executes it.

If several paths lead from a barrier to the instruction, a run shows whether lanes that reach it took the same one
(`path_checks.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.model.control_flow import successors
from wsemu.model.isa import ALIGNED, CONVERGED, LOOSE, NAMES, OPCODE, OPERATIONS, step_word
from wsemu.proof.taint_steps import plain_decoder

if TYPE_CHECKING:
    from wsemu.model.program import Program

ACTIVE = OPCODE["activemask"]


def masks_after_barriers(program: Program) -> dict[int, int]:
    """Map each `activemask` that names all lanes which reach it to the barrier before it."""
    key = "masks after barriers"
    if key not in program.derived:
        code = program.code
        masks = [pc for pc in range(len(code)) if code[pc, 0] == ACTIVE and code[pc, 7] != CONVERGED]
        program.derived[key] = _find_barriers(program, masks) if masks else {}
    found: dict[int, int] = program.derived[key]
    return found


def known_masks(program: Program, *, strict: bool) -> frozenset[int]:
    """Return the `activemask` instructions with the same mask in all schedules; `strict`, by the text of PTX, none."""
    return frozenset() if strict else frozenset(masks_after_barriers(program))


def _find_barriers(program: Program, masks: list[int]) -> dict[int, int]:
    """Search backward from each mask, as long as an instruction has one predecessor."""
    rows, separating = program.code.tolist(), find_separating(program)
    before = find_predecessors(rows)
    found = {}
    for mask in masks:
        pc, passed = mask, set[int]()
        while len(before[pc]) == 1 and pc not in passed:
            passed.add(pc)
            pc = before[pc][0]
            if _is_aligned_barrier(rows[pc]):
                found[mask] = pc
                break
            if pc in separating:
                break
    return found


def find_separating(program: Program) -> frozenset[int]:
    """Return the instructions at which converged lanes may diverge without a branch: waits other than
    aligned barriers, and warp-wide operations that some lanes skip, or whose members may differ between lanes."""
    rows = program.code.tolist()
    before = find_predecessors(rows)
    alike = {constant.row for constant in program.constants} - {row for row, *_ in program.undefined}

    def separates(pc: int) -> bool:
        row, name = rows[pc], NAMES[rows[pc][0]]
        kind = OPERATIONS[name].kind
        if kind == "warp" and name not in LOOSE:
            return bool(row[1]) or not (row[5] in alike or _names_active_lanes(program, rows, before, pc))
        return kind in ("barrier", "async") and not _is_aligned_barrier(row)

    return frozenset(pc for pc in range(len(rows)) if separates(pc))


def _names_active_lanes(program: Program, rows: list[list[int]], before: list[list[int]], pc: int) -> bool:
    """Return whether the members of an operation are the mask of an `activemask` since the last barriers, on all paths.
    Lanes that are together get one mask from it."""
    decoder, members = plain_decoder(program), rows[pc][5]
    passed, pending = set[int](), [pc]
    while pending:
        pc = pending.pop()
        if pc == 0 or not before[pc]:
            return False
        for earlier in before[pc]:
            row = rows[earlier]
            if _is_aligned_barrier(row):
                return False
            if any(members in step.writes for step in decoder.steps(earlier)):
                if row[0] != ACTIVE or row[1]:
                    return False
            elif earlier not in passed:
                passed.add(earlier)
                pending.append(earlier)
    return True


def find_predecessors(rows: list[list[int]]) -> list[list[int]]:
    """Return the instructions that may run just before each instruction."""
    before: list[list[int]] = [[] for _ in rows]
    for pc, row in enumerate(rows):
        for target in successors(pc, row):
            if 0 <= target < len(rows):
                before[target].append(pc)
    return before


def find_between(
    rows: list[list[int]], before: list[list[int]], separating: frozenset[int], mask: int
) -> tuple[set[int], int] | None:
    """Return the instructions between the last barriers and a mask, and the nearest barrier; None if some path to the
    mask has no barrier, or an instruction that is `separating`."""
    region, pending, barriers = {mask}, [mask], set[int]()
    while pending:
        pc = pending.pop()
        if pc == 0 or not before[pc]:
            return None
        for earlier in before[pc]:
            if _is_aligned_barrier(rows[earlier]):
                barriers.add(earlier)
            elif earlier in separating:
                return None
            elif earlier not in region:
                region.add(earlier)
                pending.append(earlier)
    return region, max((pc for pc in barriers if pc < mask), default=max(barriers))


def _is_aligned_barrier(row: list[int]) -> bool:
    """Return whether all lanes of a warp wait at this barrier together."""
    name = NAMES[row[0]]
    is_wait = OPERATIONS[name].kind == "barrier" and step_word(name) == "sync"
    return is_wait and not row[1] and row[7] == ALIGNED
