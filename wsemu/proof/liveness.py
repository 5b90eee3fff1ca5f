"""Which registers still matter at an instruction: those that some way from there reads before it writes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.model.control_flow import successors
from wsemu.model.isa import NAMES, OPERATIONS, SIZE
from wsemu.proof.taint_steps import Decoder, Regions

if TYPE_CHECKING:
    from wsemu.model.program import Program

Rows = frozenset[int]


def live_rows(program: Program, apart: frozenset[int] = frozenset(), quiet: frozenset[int] = frozenset()) -> list[Rows]:
    """By instruction, the rows that matter just before it.  A guarded write leaves what other lanes hold.  `apart` are
    stores to whose address it does not matter, `quiet` instructions that matter only as far as what they make does."""
    if apart or quiet:
        return _live_rows(program, apart, quiet)
    if "live rows" not in program.derived:
        program.derived["live rows"] = _live_rows(program, apart, quiet)
    found: list[Rows] = program.derived["live rows"]
    return found


def _live_rows(program: Program, apart: frozenset[int], quiet: frozenset[int]) -> list[Rows]:
    decoder = Decoder(program, Regions(program, 0, None), {})
    code = program.code.tolist()
    reads: list[set[int]] = []
    writes: list[set[int]] = []
    for pc, fields in enumerate(code):
        read: set[int] = {fields[1] >> 1} - {0}
        written: set[int] = set()
        for step in decoder.steps(pc):
            named = (*step.reads, *step.operands, step.address)
            if pc in apart:
                named = tuple(row for row in named if row != step.address)
            read |= {row for row in named if row > 0}
            if not step.guard:
                written |= set(step.writes)
        reads.append(read)
        writes.append(written)
    live: list[set[int]] = [set() for _ in code]
    before: list[set[int]] = [set() for _ in code]
    for pc, fields in enumerate(code):
        for after in successors(pc, fields):
            if after < len(code):
                before[after].add(pc)
    work = list(range(len(code)))
    while work:
        pc = work.pop()
        later = set[int]().union(*(live[s] for s in successors(pc, code[pc]) if s < len(code)))
        needed = reads[pc] if pc not in quiet or writes[pc] & later else set()
        now = needed | (later - writes[pc])
        if now != live[pc]:
            live[pc] = now
            work += before[pc]
    return [frozenset(rows) for rows in live]


def lane_bytes(program: Program) -> dict[int, int]:
    """Row -> bytes that a lane has of it; 0 for a predicate, of which it has a bit.  Rows that only vectors and
    matrices name are left out."""
    found: dict[int, int] = {}
    for fields in program.code.tolist():
        operation = OPERATIONS[NAMES[fields[0]]]
        named = [(operation.result, fields[2]), *zip(operation.operands, fields[3:7], strict=False)]
        for type_, row in named:
            if type_ == "p" or type_ in SIZE:
                found[row] = 0 if type_ == "p" else SIZE[type_]
    return found
