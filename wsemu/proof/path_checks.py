"""The program that tests whether lanes which reach an `activemask` took the same path from a barrier.

Such lanes are active together: docs/how.md, "Active lanes after a barrier".  The program ends in a `trap` if lanes part
at a branch from which both sides lead to the `activemask`.

Detects: aligned barriers on all paths before the `activemask`, without other waits after them.
Does not detect: masks at the start of a kernel; lanes that part and meet again at a barrier of single lanes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.model.control_flow import BRA, successors
from wsemu.model.isa import ABORTS, ROW
from wsemu.model.program import Constant
from wsemu.proof.rewriting import Fields, append_trap, make_instruction, replace_instructions
from wsemu.proof.together import find_between, find_predecessors, find_separating

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wsemu.model.program import Program


def check_paths(program: Program, masks: Iterable[int]) -> tuple[dict[int, int], Program] | None:
    """Return some masks, each with a barrier before it, and a program that tests them; None if no mask has barriers on
    all paths to it.

    The program ends in a `trap` if lanes that may reach a mask part after the barriers.  A path may not contain another
    wait, because lanes may leave a loop that polls in different rounds.
    """
    rows, separating = program.code.tolist(), find_separating(program)
    before, found, branches = find_predecessors(rows), dict[int, int](), set[int]()
    for mask in masks:
        between = find_between(rows, before, separating, mask)
        if between is not None:
            region, found[mask] = between
            branches |= {pc for pc in region if rows[pc][0] == BRA and region.issuperset(successors(pc, rows[pc]))}
    return (found, _trap_parting(program, branches)) if found else None


def _trap_parting(program: Program, branches: set[int]) -> Program:
    """Return the program that ends in a `trap` if the lanes that execute one of some branches together part there.  All
    other branches, and all other instructions, stay."""
    end = -(-program.register_bytes // ROW) * ROW
    side, alike, one, zero, all_lanes = (end + ROW * n for n in range(5))
    stops = append_trap(program, ABORTS)
    made: dict[int, list[Fields]] = {}
    for pc in branches:
        fields = program.code[pc].tolist()
        made[pc] = [
            make_instruction("selp.b64", 0, side, one, zero, fields[1] >> 1),
            make_instruction("alike.b64", 0, alike, side, all_lanes, all_lanes),
            make_instruction("bra", alike << 1 | 1, 0, 0, 0, -1, immediate=len(program.code)),
            fields,
        ]
    constants = [Constant(one, "b64", 1), Constant(zero, "b64", 0), Constant(all_lanes, "b32", -1)]
    return replace_instructions(stops, made, register_bytes=end + 5 * ROW, constants=[*program.constants, *constants])
