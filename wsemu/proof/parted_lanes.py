"""The program whose lanes stay apart: lanes that a branch parts do not meet again before a barrier.

PTX guarantees no reconvergence: after a join, lanes that came by different paths may be together or apart.  The engines
let them meet at the immediate post-dominator of the branch.  In this program they do not meet, so its run is another
schedule of the original program.  An `activemask` in it names only lanes that took the same path to it.

If masks only name the members of shuffles, this program also stands for all other schedules.  A lane that reads one of
another path gets an undefined value here, and some value there.  The theorem is in docs/how.md, "Lanes that take
different paths".

Detects: shuffles in the straight-line code after an `activemask`, with aligned barriers on all paths before it.
Does not detect: masks with other uses, such as ballots; shuffles after other warp-wide operations since the barriers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.model.control_flow import BRA
from wsemu.model.data import replace
from wsemu.model.isa import CONVERGED, LOOSE, NAMES, OPERATIONS
from wsemu.proof.liveness import live_rows
from wsemu.proof.taint_steps import plain_decoder
from wsemu.proof.together import ACTIVE, find_between, find_predecessors, find_separating

if TYPE_CHECKING:
    from wsemu.model.program import Program

_JOIN, _NONE, _MEMBERS, _HOW = 5, -1, 5, 7
_OF_PATHS = "masks of lanes of one path"
_STRAIGHT = ("alu", "load", "store", "atomic", "fence", "warp")


def part_lanes(program: Program, *, strict: bool) -> Program | None:
    """Return the program in which no branch has a reconvergence point; None if none has one.

    Masks that only name members of shuffles count as known; `strict`, by the text of PTX, none does.
    """
    key = f"lanes that stay apart, {strict}"
    if key not in program.derived:
        code = program.code.copy()
        branches = code[:, 0] == BRA
        made = None
        if (code[branches, _JOIN] >= 0).any():
            masks = {} if strict else _find_member_masks(program)
            code[branches, _JOIN] = _NONE
            code[sorted(masks), _HOW] = CONVERGED
            made = replace(program, code=code)
            made.derived[_OF_PATHS] = masks
        program.derived[key] = made
    parted: Program | None = program.derived[key]
    return parted


def masks_of_paths(program: Program) -> dict[int, int]:
    """Map each mask that counts as known in a program of separate paths to the barrier before it."""
    found: dict[int, int] = program.derived.get(_OF_PATHS, {})
    return found


def _find_member_masks(program: Program) -> dict[int, int]:
    """Map each `activemask` that only names members of shuffles to the barrier before it.  No operation has brought its
    lanes together since the barriers."""
    rows, separating = program.code.tolist(), find_separating(program)
    before = find_predecessors(rows)
    shuffles = {pc: _find_shuffles(program, rows, before, pc) for pc, row in enumerate(rows) if row[0] == ACTIVE}
    among_equals = {at for found in shuffles.values() if found is not None for at in found}

    def meets_nobody(pc: int) -> bool:
        name = NAMES[rows[pc][0]]
        return OPERATIONS[name].kind not in ("warp", "matrix") or name in LOOSE or pc in among_equals

    masks = dict[int, int]()
    for pc, found in shuffles.items():
        between = find_between(rows, before, separating, pc) if found is not None else None
        if between is not None and all(map(meets_nobody, between[0])):
            masks[pc] = between[1]
    return masks


def _find_shuffles(program: Program, rows: list[list[int]], before: list[list[int]], mask: int) -> set[int] | None:
    """Return the shuffles whose members a mask names, in the straight-line code after it; None if it has other uses."""
    live, decoder, row = live_rows(program), plain_decoder(program), rows[mask][2]
    found, pc = set[int](), mask + 1
    if rows[mask][1]:
        return None
    while row in live[pc]:
        fields, name = rows[pc], NAMES[rows[pc][0]]
        if before[pc] != [pc - 1] or OPERATIONS[name].kind not in _STRAIGHT:
            return None
        steps = [*decoder.steps(pc)]
        if any(row in step.operands for step in steps) and name.startswith("shfl.") and not fields[1]:
            found.add(pc)
        elif any(row in step.operands for step in steps):
            return None
        if any(row in step.reads or row == step.address for step in steps):
            return None
        if any(row in step.writes for step in steps):
            return None if fields[1] else found
        pc += 1
    return found
