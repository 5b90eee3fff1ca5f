"""The program in which strong loads and stores are plain: if it has no race, it decides the program.

Detects: volatile and relaxed loads of locations that a launch only reads, or whose accesses barriers order.
Does not detect: loads beside stores that only strong accesses order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wsemu.model.data import replace
from wsemu.model.isa import (
    ANYWHERE,
    AS_STORE,
    ATOMICS,
    FORBIDS_SHIFT,
    FRESH,
    NAMES,
    NO_STORE,
    OPCODE,
    OWN_SHARED,
    SERVED,
)

if TYPE_CHECKING:
    from wsemu.model.program import Program

_KEPT = OWN_SHARED | ANYWHERE << FORBIDS_SHIFT


def make_plain(program: Program) -> Program | None:
    """Return the program in which strong loads are plain; None if it has none, or strong stores as well."""
    if "plain accesses" not in program.derived:
        program.derived["plain accesses"] = _make_plain(program)
    made: Program | None = program.derived["plain accesses"]
    return made


def _make_plain(program: Program) -> Program | None:
    code = program.code.copy()
    loads = 0
    for pc, fields in enumerate(program.code.tolist()):
        what, type_ = ATOMICS.get(NAMES[fields[0]], ("", ""))
        if fields[7] & NO_STORE and what:
            loads += 1
            code[pc] = [OPCODE[f"ld.{type_}"], *fields[1:4], 0, 0, fields[6], fields[7] & _KEPT | FRESH]
        elif what == "exch" and fields[7] & SERVED == AS_STORE:
            return None
    return replace(program, code=np.array(code, np.int64)) if loads else None
