"""`strong-vector`: a strong access of a vector, which a GPU performs as one access, although PTX does not promise it.

Detects: executed relaxed, acquire and release loads and stores of vectors of 32, 64 or 128 bits in total.  Also detects
the ones that only other orders of atomics may execute, and atomics of two packed elements (`f16x2`) whose result is
used, or whose array is also accessed by atomics of whole words.
Does not detect: plain accesses of vectors, which need not be one access.
Reference: PTX ISA, "Vector Data-types" in "Memory Consistency Model": a vector access is a set of scalar accesses in an
unspecified order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.model.finding import Finding
from wsemu.model.isa import ATOMICS, HALVES_OF_VECTOR, OPCODE, PARTS_SHIFT
from wsemu.model.remedy import Cures

if TYPE_CHECKING:
    from collections.abc import Callable

    from wsemu.evidence.places import Places
    from wsemu.model.settings import Settings

CODES = ("strong-vector",)
CURES = {"strong-vector": Cures(570)}
_ATOMIC = frozenset(OPCODE[name] for name in ATOMICS)


def examine(places: Places, settings: Settings) -> list[Finding]:
    """Return a finding for each executed strong access of a vector, by its location in the source."""
    executed = _find_first(places, lambda pc: bool(places.outcome.executions[pc]))
    return [_describe(places, pc) for pc in executed.values()]


def examine_others(places: Places, others: frozenset[int] | None) -> list[Finding]:
    """Return the findings of the locations that only other orders of atomics execute."""
    executions = places.outcome.executions
    executed = _find_first(places, lambda pc: bool(executions[pc]))
    reached = _find_first(places, lambda pc: not executions[pc] and (others is None or pc in others))
    return [_describe(places, pc) for origin, pc in reached.items() if origin not in executed]


def _find_first(places: Places, counts: Callable[[int], bool]) -> dict[Any, int]:
    """Return the first strong access of a vector that counts at each location in the source."""
    if _ATOMIC.isdisjoint(places.program.opcodes):
        return {}
    code = places.program.code
    parts = code[:, 7] & (3 << PARTS_SHIFT | HALVES_OF_VECTOR)
    vectors: list[int] = np.flatnonzero(np.isin(code[:, 0], sorted(_ATOMIC)) & (parts != 0)).tolist()
    found: dict[Any, int] = {}
    for pc in filter(counts, vectors):
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
