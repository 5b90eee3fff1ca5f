"""`strong-vector`: a strong access of a vector, which a GPU performs as one access.

Detects: executed relaxed, acquire and release loads and stores of vectors of 32, 64 or 128 bits in total.
Does not detect: plain accesses of vectors, which need not be one access.
Reference: PTX ISA, "Vector Data-types" in "Memory Consistency Model": scalar accesses in an unspecified order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.model.finding import Finding
from wsemu.model.isa import ATOMICS, HALVES_OF_VECTOR, OPCODE, PARTS_SHIFT
from wsemu.model.remedy import Cures

if TYPE_CHECKING:
    from wsemu.evidence.places import Places
    from wsemu.model.settings import Settings

CODES = ("strong-vector",)
CURES = {"strong-vector": Cures(570)}
_ATOMIC = frozenset(OPCODE[name] for name in ATOMICS)


def examine(places: Places, settings: Settings) -> list[Finding]:
    """Return a finding for each executed strong access of a vector, by its location in the source."""
    return [_describe(places, pc) for pc in _find_first(places).values()]


def _find_first(places: Places) -> dict[Any, int]:
    """Return the first executed strong access of a vector at each location in the source."""
    if _ATOMIC.isdisjoint(places.program.opcodes):
        return {}
    code = places.program.code
    parts = code[:, 7] & (3 << PARTS_SHIFT | HALVES_OF_VECTOR)
    vectors = np.flatnonzero(np.isin(code[:, 0], sorted(_ATOMIC)) & (parts != 0)).tolist()
    found: dict[Any, int] = {}
    for pc in vectors:
        if places.outcome.executions[pc]:
            found.setdefault(places.origin(pc), pc)
    return found


def _describe(places: Places, pc: int) -> Finding:
    how = int(places.program.code[pc, 7])
    parts = (2 if how & HALVES_OF_VECTOR else 1) << (how >> PARTS_SHIFT & 3)
    return Finding(
        code="strong-vector",
        message=f"a strong access of a vector of {parts} elements counts as one access",
        sites=[places.site(pc, f"one access of {parts} elements", primary=True)],
        notes=[
            "PTX promises one access for each element, in any order; a GPU performs an aligned vector as one access"
        ],
        help="pack the elements into one integer, and access that",
    )
