"""Replace atomics and strong loads by plain accesses: if the new program has no race, it decides the original one.

In a program without races, each load has one value in all schedules.  An atomic is a load, an operation and a store
with nothing in between.  The theorem is in docs/how.md, "Accesses that may as well be plain".

Detects: volatile and relaxed loads of locations that a launch only reads, or whose accesses barriers order.  Also
atomics in shared memory by one lane at a time, such as counters of a histogram of one warp.
Does not detect: accesses that only other strong accesses order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.model.data import replace
from wsemu.model.isa import (
    ANYWHERE,
    AS_STORE,
    ATOMICS,
    FORBIDS_SHIFT,
    FRESH,
    IN_SHARED,
    NAMES,
    NO_STORE,
    OWN_SHARED,
    ROW,
    SERVED,
    USES_OLD,
)
from wsemu.proof.liveness import live_rows
from wsemu.proof.rewriting import Fields, make_instruction, replace_instructions

if TYPE_CHECKING:
    from wsemu.model.program import Program

_KEPT = OWN_SHARED | ANYWHERE << FORBIDS_SHIFT
_OPERATIONS = ("add", "and", "or", "xor")


def make_plain(program: Program) -> Program | None:
    """Return the program in which strong loads are plain; None if it has none, or strong stores as well."""
    made: dict[int, list[Fields]] = {}
    for pc, fields in enumerate(program.code.tolist()):
        what, type_ = ATOMICS.get(NAMES[fields[0]], ("", ""))
        if fields[7] & NO_STORE and what:
            made[pc] = [_load(fields, fields[2], type_)]
        elif what == "exch" and fields[7] & SERVED == AS_STORE:
            return None
    return replace_instructions(program, made) if made else None


def _load(fields: Fields, to: int, type_: str) -> Fields:
    how = fields[7] & _KEPT | FRESH
    return make_instruction(f"ld.{type_}", fields[1], to, fields[3], immediate=fields[6], auxiliary=how)


def make_shared_plain(program: Program) -> Program | None:
    """Return the program in which atomics in shared memory with used results are loads and stores; None if it has
    none."""
    end, live = -(-program.register_bytes // ROW) * ROW, live_rows(program)
    old, new = end, end + ROW
    made: dict[int, list[Fields]] = {}
    for pc, fields in enumerate(program.code.tolist()):
        what, type_ = ATOMICS.get(NAMES[fields[0]], ("", ""))
        inside = fields[7] >> FORBIDS_SHIFT & ANYWHERE == ANYWHERE & ~IN_SHARED
        if what not in _OPERATIONS or not inside or fields[7] & NO_STORE or fields[2] not in live[pc + 1]:
            continue
        guard, at, how = fields[1], fields[6], fields[7] & _KEPT
        made[pc] = [
            _load(fields, old, type_),
            make_instruction(f"{what}.{type_}", guard, new, old, fields[4]),
            make_instruction(f"st.{type_}", guard, new, fields[3], immediate=at, auxiliary=how),
            make_instruction(f"mov.{type_}", guard, fields[2], old),
        ]
    return replace_instructions(program, made, register_bytes=end + 2 * ROW) if made else None


def make_stores(program: Program) -> Program:
    """Return the program in which each exchange whose result is unused is a strong store."""
    code, live = program.code.copy(), live_rows(program)
    for pc, fields in enumerate(program.code.tolist()):
        exchanges = ATOMICS.get(NAMES[fields[0]], ("",))[0] == "exch"
        if exchanges and not fields[7] & NO_STORE and fields[2] not in live[pc + 1]:
            code[pc, 7] = fields[7] & ~(SERVED | USES_OLD) | AS_STORE
    return replace(program, code=code) if (code != program.code).any() else program
